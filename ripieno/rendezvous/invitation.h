// How rank 0 tells the other ranks where the rendezvous is, and the job's token, where no launcher does: by an
// invitation, which it leaves in a place that all of them see. Mostly that is a file that only its user can read.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ripieno::rendezvous {

struct Invitation {
  std::vector<std::string> addresses;  ///< host:port, any of which may be the way to the rendezvous
  std::string token;
};

class InvitationPlace {
 public:
  virtual ~InvitationPlace() = default;
  /// For errors: a file's path.
  virtual std::string name() const = 0;
  /// Replaces the one that is there, at once.
  virtual void leave(const Invitation& invitation) = 0;
  /// nullopt: there is none, or not yet.
  virtual std::optional<Invitation> find() const = 0;
  virtual void remove() noexcept = 0;
  /// This process is the one of that rank, until the returned object is destroyed: ranks of two jobs that have the same
  /// place would take each other for their own. Error(usage), with the other process, if another is that rank now.
  /// By default the place is known to one job alone.
  virtual std::shared_ptr<const void> claim(int) const { return nullptr; }
};

/// A file. leave(): Error(io) if it cannot be written. find(): Error(usage), with path and owner or mode, if another
/// user wrote it or others can read it; Error(data) if it is no invitation.
class InvitationFile final : public InvitationPlace {
 public:
  explicit InvitationFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::string name() const override { return path_.string(); }
  void leave(const Invitation& invitation) override;
  std::optional<Invitation> find() const override;
  void remove() noexcept override;
  /// Among the processes of this host and its network namespace.
  std::shared_ptr<const void> claim(int rank) const override;

 private:
  const std::filesystem::path path_;
};

/// An invitation as lines of text. Error(data), with `place`: it is none.
std::string to_text(const Invitation& invitation);
Invitation invitation_of(const std::string& text, const std::string& place);

/// The token in a file, without white space around it. Error(io): it cannot be read. Error(usage), with path and owner
/// or mode, if it belongs to another user or others can read it.
std::string read_token(const std::filesystem::path& path);

/// The first of these places where there is a folder of this user's that nobody else can enter, or one can be made; all
/// processes of a job take the same. Error(usage) with the reason for each, such as its owner or mode, if none is.
std::filesystem::path private_folder(const std::vector<std::filesystem::path>& places);

}  // namespace ripieno::rendezvous
