#include "ripieno/rendezvous/invitation.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "ripieno/core/descriptor.h"
#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/core/hash.h"
#include "ripieno/rendezvous/greeting.h"

namespace ripieno::rendezvous {
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

/// A name that one process of this host can have. The kernel frees it when the process ends, however that is.
class ClaimedName {
 public:
  /// `name`: the same for all who claim the same. Waits for nobody.
  explicit ClaimedName(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // after a zero: it is in no folder
    const auto* const where = reinterpret_cast<const sockaddr*>(&address);
    if (!socket_.is_open()) return;
    if (::bind(socket_.get(), where, sizeof address) == 0) {
      ::listen(socket_.get(), 16);
    } else if (errno == EADDRINUSE && ::connect(socket_.get(), where, sizeof address) == 0) {
      ucred owner{};
      socklen_t size = sizeof owner;
      const bool is_known = ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0;
      if (is_known && owner.uid == ::getuid()) owner_ = owner.pid;  // another user's claim counts for nothing
    }
  }

  std::optional<pid_t> owner() const { return owner_; }  ///< nullopt: this process, or nobody who counts

 private:
  Descriptor socket_;
  std::optional<pid_t> owner_;
};

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

std::shared_ptr<const void> InvitationFile::claim(int rank) const {
  const std::string place = std::filesystem::absolute(path_).string();
  auto name = std::make_shared<const ClaimedName>(text("ripieno-", std::hex, hash(place), std::dec, "-rank-", rank));
  if (!name->owner()) return name;
  fail(ErrorKind::usage, "rank ", rank, " of this job is process ", *name->owner(),
       " already, which waits for the others (by ", place,
       "): a rank was started twice, or two jobs have the same variables. Number the ranks, and give each job a "
       "MASTER_PORT or a RIPIENO_MEETING_FOLDER of its own");
}

std::string read_token(const std::filesystem::path& path) {
  const std::optional<std::string> content = read_private(path);
  if (!content) fail(ErrorKind::io, "cannot read ", path.string(), ": there is no such file");
  std::istringstream words(*content);
  std::string token;
  words >> token;
  return token;
}

namespace {

void make_private(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    fail(ErrorKind::io, "cannot make the folder ", path.string(), ": ", std::strerror(errno));
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode))
    fail(ErrorKind::usage, path.string(), " is no folder, but ranks would meet by a file in it: remove it");
  check_private(path, found);
}

}  // namespace

std::filesystem::path private_folder(const std::vector<std::filesystem::path>& places) {
  std::string reasons;
  for (const std::filesystem::path& place : places) {
    try {
      make_private(place);
      return place;
    } catch (const Error& error) {
      reasons += text(reasons.empty() ? "" : "; ", error.what());
    }
  }
  fail(ErrorKind::usage, "there is no folder in which ranks can meet: ", reasons);
}

}  // namespace ripieno::rendezvous
