#include "ripieno/membership/invitation.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "ripieno/core/descriptor.h"
#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/membership/greeting.h"

namespace ripieno::membership {
namespace {

constexpr const char* first_line = "Ripieno's invitation to a job's rendezvous";

/// Error(usage) unless the file or folder is this user's alone.
void check_private(const std::filesystem::path& path, const struct stat& found) {
  if (found.st_uid != ::getuid()) {
    fail(ErrorKind::usage, path.string(), " belongs to user ", found.st_uid, " and not to ", ::getuid(),
         ", who runs this: a job's token must come from its own user");
  }
  if (found.st_mode & (S_IRWXG | S_IRWXO)) {
    fail(ErrorKind::usage, path.string(), " has mode ", std::oct, found.st_mode & 0777,
         ", so others can see the job's token: chmod go= ", path.string());
  }
}

/// The beginning of a file that is this user's alone; nullopt if there is none. Error(io), Error(usage).
std::optional<std::string> read_private(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open() && errno == ENOENT) return std::nullopt;
  struct stat found {};
  std::string content(4096, '\0');
  ssize_t got = -1;
  if (file.is_open() && ::fstat(file.get(), &found) == 0) {
    check_private(path, found);
    got = ::read(file.get(), content.data(), content.size());
  }
  if (got < 0) fail(ErrorKind::io, "cannot read ", path.string(), ": ", std::strerror(errno));
  content.resize(static_cast<std::size_t>(got));
  return content;
}

}  // namespace

std::string to_text(const Invitation& invitation) {
  std::string lines = text(first_line, '\n', invitation.token, '\n');
  for (const std::string& address : invitation.addresses) lines += address + '\n';
  return lines;
}

Invitation invitation_of(const std::string& text, const std::string& place) {
  std::istringstream lines(text);
  std::string line;
  Invitation invitation;
  std::getline(lines, line);
  const bool is_one = line == first_line && std::getline(lines, invitation.token);
  while (std::getline(lines, line)) invitation.addresses.push_back(line);
  if (!is_one || invitation.addresses.empty()) fail(ErrorKind::data, place, " is no invitation of rank 0's: remove it");
  return invitation;
}

void InvitationFile::leave(const Invitation& invitation) {
  const std::string unfinished = text(path_.string(), '.', ::getpid());
  const auto failed = [&](const char* what) {
    const int error = errno;
    ::unlink(unfinished.c_str());
    fail(ErrorKind::io, what, " ", path_.string(), ": ", std::strerror(error));
  };
  const Descriptor file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) failed("cannot write");
  write_all(file.get(), to_text(invitation), path_);
  if (::rename(unfinished.c_str(), path_.c_str()) != 0) failed("cannot write");
}

std::optional<Invitation> InvitationFile::find() const {
  const std::optional<std::string> content = read_private(path_);
  if (!content) return std::nullopt;
  return invitation_of(*content, path_.string());
}

void InvitationFile::remove() noexcept {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::string read_token(const std::filesystem::path& path) {
  const std::optional<std::string> content = read_private(path);
  if (!content) fail(ErrorKind::io, "cannot read ", path.string(), ": there is no such file");
  std::istringstream words(*content);
  std::string token;
  words >> token;
  return token;
}

std::filesystem::path private_folder(const std::string& runtime_folder) {
  std::filesystem::path path = runtime_folder.empty() ? std::filesystem::path(text("/tmp/ripieno-", ::getuid()))
                                                      : std::filesystem::path(runtime_folder) / "ripieno";
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    fail(ErrorKind::io, "cannot make the folder ", path.string(), ": ", std::strerror(errno));
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode))
    fail(ErrorKind::usage, path.string(), " is no folder, but ranks would meet by a file in it: remove it");
  check_private(path, found);
  return path;
}

}  // namespace ripieno::membership
