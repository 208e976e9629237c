// The result file: whole or absent, never lost, and refused before anything is measured.
#include "report/result_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace overlapbench {
namespace {

namespace fs = std::filesystem;

class ResultFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string Read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("result_file_test_" + std::to_string(getpid()));
  const fs::path path_ = folder_ / "result.json";
  const fs::path partial_ = folder_ / "result.json.partial";
};

TEST_F(ResultFileTest, IsClosedProperlyAfterEveryRow) {
  ResultFile file(path_);
  file.Append("{[", "]}\n");
  EXPECT_EQ(Read(partial_), "{[]}\n");
  file.Append("1", "]}\n");
  EXPECT_EQ(Read(partial_), "{[1]}\n");
  file.Append(",2", "]}\n");
  EXPECT_EQ(Read(partial_), "{[1,2]}\n");
}

TEST_F(ResultFileTest, LeavesNothingOfALongerEnding) {
  ResultFile file(path_);
  file.Append("a", "a long ending");
  file.Append("b", "!");
  EXPECT_EQ(Read(partial_), "ab!");
}

TEST_F(ResultFileTest, AppearsWholeAtTheEnd) {
  ResultFile file(path_);
  file.Append("{[", "]}\n");
  EXPECT_FALSE(fs::exists(path_));
  file.Append("]}\n", "");
  file.Finish();
  EXPECT_EQ(Read(path_), "{[]}\n");
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(ResultFileTest, KeepsAnEarlierResultUntilTheEnd) {
  std::ofstream(path_) << "earlier";
  {
    ResultFile unfinished(path_);
    unfinished.Append("{", "}");
  }
  EXPECT_EQ(Read(path_), "earlier");
  EXPECT_EQ(Read(partial_), "{}");
  ResultFile finished(path_);
  finished.Append("new", "");
  finished.Finish();
  EXPECT_EQ(Read(path_), "new");
}

TEST_F(ResultFileTest, IsRefusedWhereItCannotBeWritten) {
  EXPECT_THROW(ResultFile(folder_ / "missing" / "result.json"), UsageError);
  EXPECT_THROW(ResultFile{folder_}, UsageError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ResultFileTest, IsRefusedWhereAnEarlierResultIsProtected) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  std::ofstream(path_) << "earlier";
  fs::permissions(path_, fs::perms::owner_read);
  EXPECT_THROW(ResultFile{path_}, UsageError);
  EXPECT_EQ(Read(path_), "earlier");
}

TEST_F(ResultFileTest, SaysWhyInOneLine) {
  try {
    const ResultFile file(folder_ / "missing" / "result.json");
    FAIL() << "the file was taken";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.what(), "cannot write " + (folder_ / "missing" / "result.json").string() +
                                ": No such file or directory");
  }
}

}  // namespace
}  // namespace overlapbench
