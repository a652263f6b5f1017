// An open file, pipe or folder, closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace ripieno {

class Descriptor {
 public:
  Descriptor() = default;
  /// Takes a descriptor as open() returns it; negative: none.
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    const Descriptor before(std::exchange(fd_, other.release()));
    return *this;
  }
  ~Descriptor() {
    if (is_open()) ::close(fd_);
  }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// Gives up the descriptor: the caller closes it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace ripieno
