// FakeRoot: a folder that stands for the machine's /, with files like the Linux kernel's.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace overlapbench {

class FakeRoot : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "fake_root_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::filesystem::path& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }

  std::filesystem::path root_;
};

}  // namespace overlapbench
