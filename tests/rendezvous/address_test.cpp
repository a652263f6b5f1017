#include "ripieno/rendezvous/address.h"

#include <gtest/gtest.h>

#include "ripieno/core/error.h"

namespace ripieno::rendezvous {
namespace {

TEST(Address, IsParsed) {
  EXPECT_EQ(parse_address("127.0.0.1:80").host, "127.0.0.1");
  EXPECT_EQ(parse_address("127.0.0.1:80").port, 80);
  EXPECT_EQ(parse_address("[::1]:65535").host, "::1");
  for (const char* wrong : {"", "host", "host:", ":80", "host:65536", "host:-1", "host:8x", "::1:80"}) {
    EXPECT_THROW(parse_address(wrong), Error) << wrong;
  }
  EXPECT_THROW(resolve("no-such-host.invalid:1"), Error);
}

TEST(Address, APlaceToMeetWithoutAWayToItIsNamed) {
  try {
    check_route_to("255.255.255.255:80");
    FAIL() << "there is a way to everybody";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::network);
    EXPECT_NE(std::string(error.what()).find("cannot meet at 255.255.255.255:80"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(check_route_to("127.0.0.1:80"));
}

}  // namespace
}  // namespace ripieno::rendezvous
