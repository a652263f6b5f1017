#include "ripieno/launch/control.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "ripieno/launch/failure.h"

namespace ripieno::launch {
namespace {

constexpr int some_patience_ms = 500, for_ever = -1;

/// write() that answers EPIPE without raising SIGPIPE, whatever the process does with that signal elsewhere.
ssize_t write_quietly(int fd, const char* data, std::size_t size) {
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t written = write(fd, data, size);
  const int error = errno;
  if (written < 0 && error == EPIPE && !was_pending) {
    const timespec at_once{};
    while (sigtimedwait(&pipe_signal, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

std::string line_of(const nlohmann::json& message) {
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Control::Control(int fd) : pipe_(fd), patience_ms_(some_patience_ms) {
  if (!has_listener()) return;
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) fail(ErrorKind::usage, "RIPIENO_CONTROL_FD is ", fd, ", which is not an open descriptor");
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
}

Control::~Control() {
  if (has_listener()) flush(patience_ms_);
}

void Control::send(const nlohmann::json& message) {
  if (!has_listener()) return;
  flush(patience_ms_);
  if (!has_listener() || !unsent_.empty()) return;  // the launcher does not read: dropped
  unsent_ = line_of(message);
  flush(patience_ms_);
}

void Control::deliver(const nlohmann::json& message) {
  if (!has_listener()) return;
  unsent_ += line_of(message);
  flush(for_ever);
}

void Control::failed(const Error& error) {
  deliver(
      {{"type", "failed"}, {"kind", name(error.kind())}, {"message", error.what()}, {"loss", to_json(error.loss())}});
}

void Control::flush(int patience_ms) {
  while (!unsent_.empty()) {
    const ssize_t written = write_quietly(pipe_.get(), unsent_.data(), unsent_.size());
    if (written >= 0) {
      unsent_.erase(0, static_cast<std::size_t>(written));
      patience_ms_ = some_patience_ms;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd writable{pipe_.get(), POLLOUT, 0};
      if (poll(&writable, 1, patience_ms) != 0) continue;
      patience_ms_ = 0;
      return;
    } else if (errno != EINTR) {  // the launcher has ended
      pipe_ = Descriptor();
      unsent_.clear();
    }
  }
}

}  // namespace ripieno::launch
