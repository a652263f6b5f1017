// How rank 0 tells the other ranks where the rendezvous is, and the job's token, where no launcher does: by a file that
// only its user can read, in a folder that all of them see.
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

/// Replaces what lies at the path, at once. Error(io): it cannot be written.
void write_invitation(const std::filesystem::path& path, const Invitation& invitation);

/// nullopt: there is none, or not yet. Error(usage), with path and owner or mode, if another user wrote it or others
/// can read it; Error(data) if it is no invitation.
std::optional<Invitation> read_invitation(const std::filesystem::path& path);

/// The token in a file, without white space around it. Error(io): it cannot be read. Error(usage), with path and owner
/// or mode, if it belongs to another user or others can read it.
std::string read_token(const std::filesystem::path& path);

/// A folder of this user's on this host that nobody else can enter, for invitations; makes it. Error(usage), with path
/// and owner or mode, if it belongs to another user or others can enter it.
std::filesystem::path private_folder(const std::string& runtime_folder);

}  // namespace ripieno::membership
