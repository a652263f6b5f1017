#include "ripieno/launch/hosts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::launch {
namespace {

std::string shown(const std::vector<Host>& hosts) {
  std::string all;
  for (const Host& host : hosts) all += text(host.name, "=", host.workers, " ");
  return all;
}

std::string refusal_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(Hosts, AreReadFromAList) {
  EXPECT_EQ(shown(parse_hosts("a:2,b")), "a=2 b=1 ");
  EXPECT_EQ(shown(parse_hosts("user@node-1.cluster:16")), "user@node-1.cluster=16 ");
  EXPECT_EQ(shown(parse_hosts("[fe80::1]:2,[::1]")), "fe80::1=2 ::1=1 ");
  for (const char* wrong : {"", "a:", "a:0", "a:x", "a:2x", ",", "a,,b", ":2", "-oProxyCommand=x", "a:5000"})
    EXPECT_NE(refusal_of([&] { parse_hosts(wrong); }), "") << wrong;
  EXPECT_EQ(shown(parse_hosts(" a:2 , b,\tc")), "a=2 b=1 c=1 ");
  EXPECT_EQ(refusal_of([] { parse_hosts("::1"); }),
            "--hosts: '::1': an IPv6 number stands in brackets, as [::1] or [::1]:2");
  EXPECT_EQ(refusal_of([] { parse_hosts("a:2,b,a"); }), "--hosts: a is named twice: write a:N for N workers");
}

TEST(Hosts, AreReadFromAFileAsMpiHasThem) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "hosts";
  write_file(file, "# ours\na slots=2  # fast\n\nb:3\n  c\n");
  EXPECT_EQ(shown(read_hosts(file)), "a=2 b=3 c=1 ");
  write_file(file, "a\nb cores=2\n");
  EXPECT_EQ(refusal_of([&] { read_hosts(file); }), file.string() + ":2: 'cores=2' is not slots=N");
  write_file(file,
             "\xEF\xBB\xBF"
             "a slots=2\nb:3\n");
  EXPECT_EQ(shown(read_hosts(file)), "a=2 b=3 ");
  write_file(file, "# none\n");
  EXPECT_NE(refusal_of([&] { read_hosts(file); }).find("names no host"), std::string::npos);
  EXPECT_NE(refusal_of([&] { read_hosts(folder.path() / "nothing"); }), "");
}

TEST(Hosts, WhatALineSaysMoreIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "hosts";
  write_file(file, "\nnode1 slots=1 node2 slots=1\n");
  EXPECT_EQ(refusal_of([&] { read_hosts(file); }),
            file.string() +
                ":2: 'node2' comes after slots=1, and a line has one host and its slots: give each host a "
                "line of its own");
  write_file(file, "node1:2 slots=3\n");
  EXPECT_EQ(refusal_of([&] { read_hosts(file); }), file.string() + ":1: node1:2 and slots=3: give one of them");
  write_file(file, "[::1]:2 slots=3\n");
  EXPECT_EQ(refusal_of([&] { read_hosts(file); }), file.string() + ":1: ::1:2 and slots=3: give one of them");
  write_file(file, "node1 node2\n");
  EXPECT_EQ(refusal_of([&] { read_hosts(file); }), file.string() + ":1: 'node2' is not slots=N");
}

TEST(Hosts, GiveTheirWorkersInOrder) {
  std::vector<Host> hosts = parse_hosts("a:2,b:2,c:2");
  take_workers(0, &hosts);
  EXPECT_EQ(workers_of(hosts), 6);
  take_workers(3, &hosts);
  EXPECT_EQ(shown(hosts), "a=2 b=1 ");
  EXPECT_EQ(refusal_of([&] { take_workers(4, &hosts); }), "-n 4 asks for more workers than the hosts have, which is 3");
}

TEST(Hosts, ThisOneIsKnown) {
  EXPECT_TRUE(is_here({"localhost", 1}));
  EXPECT_FALSE(is_here({"nowhere.example", 1}));
}

}  // namespace
}  // namespace ripieno::launch
