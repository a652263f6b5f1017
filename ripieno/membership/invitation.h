// How rank 0 tells the other ranks where the rendezvous is, and the job's token, where no launcher does: by an
// invitation, which it leaves in a place that all of them see. Mostly that is a file that only its user can read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ripieno::membership {

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

 private:
  const std::filesystem::path path_;
};

/// An invitation as lines of text. Error(data), with `place`: it is none.
std::string to_text(const Invitation& invitation);
Invitation invitation_of(const std::string& text, const std::string& place);

/// The token in a file, without white space around it. Error(io): it cannot be read. Error(usage), with path and owner
/// or mode, if it belongs to another user or others can read it.
std::string read_token(const std::filesystem::path& path);

/// A folder of this user's on this host that nobody else can enter, for invitations; makes it. Error(usage), with path
/// and owner or mode, if it belongs to another user or others can enter it.
std::filesystem::path private_folder(const std::string& runtime_folder);

}  // namespace ripieno::membership
