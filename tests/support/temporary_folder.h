#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ripieno/core/error.h"

namespace ripieno {

/// A fresh folder of this test alone (tests run side by side), removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            text("ripieno-", test->test_suite_name(), "-", test->name(), "-", ::getpid());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ripieno
