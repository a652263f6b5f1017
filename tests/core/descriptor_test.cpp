#include "ripieno/core/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace ripieno {
namespace {

Descriptor opened() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Descriptor, IsClosedWithItsOwner) {
  int fd = -1;
  {
    const Descriptor one = opened();
    fd = one.get();
    EXPECT_TRUE(one.is_open());
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
  EXPECT_FALSE(Descriptor().is_open());
  EXPECT_FALSE(Descriptor(-1).is_open());
}

TEST(Descriptor, HasOneOwner) {
  Descriptor one = opened();
  const int fd = one.get();
  Descriptor other(std::move(one));
  EXPECT_FALSE(one.is_open());
  EXPECT_EQ(other.get(), fd);

  Descriptor third = opened();
  const int replaced = third.get();
  third = std::move(other);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_EQ(third.get(), fd);

  Descriptor& itself = third;
  third = std::move(itself);
  EXPECT_EQ(third.get(), fd);

  EXPECT_EQ(third.release(), fd);
  EXPECT_FALSE(third.is_open());
  EXPECT_TRUE(is_open(fd));
  ::close(fd);
}

}  // namespace
}  // namespace ripieno
