#include "ripieno/rendezvous/interfaces.h"

#include <gtest/gtest.h>

#include "ripieno/core/error.h"
#include "ripieno/rendezvous/address.h"

namespace ripieno::rendezvous {
namespace {

TEST(Interfaces, AreFoundByName) {
  EXPECT_EQ(find_interface("lo"), "127.0.0.1");
  EXPECT_EQ(find_interface("glorp0"), std::nullopt);
  try {
    address_of_interface("glorp0");
    ADD_FAILURE() << "there is an interface glorp0";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find(" has no interface glorp0 with an address; it has lo (127.0.0.1)"),
              std::string::npos)
        << error.what();
  }
}

TEST(Interfaces, TheLoopbackIsNoneByWhichOthersComeHere) {
  for (const Interface& one : interfaces_of_host()) EXPECT_NE(one.name, "lo") << one.address;
}

TEST(Interfaces, TheWayToAHostNamesTheInterface) {
  EXPECT_EQ(way_to(resolve("127.0.0.1:80")), "from 127.0.0.1 by lo");
  EXPECT_EQ(way_to(resolve("255.255.255.255:80")).substr(0, 15),
            "there is no way");  // no broadcasts without asking for
}

}  // namespace
}  // namespace ripieno::rendezvous
