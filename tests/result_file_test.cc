// The result file: whole or absent, never lost, and refused before anything is measured.
#include "report/result_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace overlapbench {
namespace {

// What a test does in the place of fsync.
std::function<int(int descriptor)>& Flush() {
  static std::function<int(int descriptor)> flush;
  return flush;
}

}  // namespace

// Replaces the C library's fsync in this program: as long as the machine runs, nothing else shows
// that a file was flushed.
int InsteadOfFsync(int descriptor) asm("fsync");
int InsteadOfFsync(int descriptor) {
  return Flush() ? Flush()(descriptor) : static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace {

namespace fs = std::filesystem;

class ResultFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override {
    Flush() = {};
    fs::remove_all(folder_);
  }

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

TEST_F(ResultFileTest, IsCompleteAfterEveryRow) {
  ResultFile file(path_);
  file.Append("{[", "]}\n");
  EXPECT_EQ(Read(partial_), "{[]}\n");
  file.Append("1", "]}\n");
  EXPECT_EQ(Read(partial_), "{[1]}\n");
  file.Append(",2", "]}\n");
  EXPECT_EQ(Read(partial_), "{[1,2]}\n");
}

TEST_F(ResultFileTest, OverwritesALongerEnding) {
  ResultFile file(path_);
  file.Append("a", "a long ending");
  file.Append("b", "!");
  EXPECT_EQ(Read(partial_), "ab!");
}

TEST_F(ResultFileTest, AppearsCompleteAtTheEnd) {
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

// Renamed first, a crash of the machine could leave an empty file in the earlier one's place.
TEST_F(ResultFileTest, IsFlushedBeforeItReplacesAnEarlierResult) {
  std::ofstream(path_) << "earlier";
  ResultFile file(path_);
  std::vector<std::pair<std::string, std::string>> there;  // the earlier file and the new one
  Flush() = [&](int descriptor) {
    there.emplace_back(Read(path_), Read("/proc/self/fd/" + std::to_string(descriptor)));
    return 0;
  };
  file.Append("new", "");
  file.Finish();
  EXPECT_EQ(there, (std::vector<std::pair<std::string, std::string>>{{"earlier", "new"}}));
  EXPECT_EQ(Read(path_), "new");
}

TEST_F(ResultFileTest, KeepsAnEarlierResultIfItCannotBeFlushed) {
  std::ofstream(path_) << "earlier";
  ResultFile file(path_);
  file.Append("new", "");
  Flush() = [](int /*descriptor*/) {
    errno = EIO;
    return -1;
  };
  EXPECT_THROW(file.Finish(), UsageError);
  EXPECT_EQ(Read(path_), "earlier");
}

TEST_F(ResultFileTest, IsRefusedIfThePathIsNotWritable) {
  EXPECT_THROW(ResultFile(folder_ / "missing" / "result.json"), UsageError);
  EXPECT_THROW(ResultFile{folder_}, UsageError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

// A file would be renamed into its place.
TEST_F(ResultFileTest, IsRefusedIfThePathIsNotARegularFile) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(ResultFile{path_}, UsageError);
  EXPECT_TRUE(fs::is_fifo(path_));
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(ResultFileTest, IsRefusedIfThePathCannotBeResolved) {
  EXPECT_THROW(ResultFile(folder_ / std::string(300, 'x')), UsageError);
  fs::create_symlink(path_, folder_ / "loop");
  fs::create_symlink(folder_ / "loop", path_);
  EXPECT_THROW(ResultFile{path_}, UsageError);
}

TEST_F(ResultFileTest, ReplacesTheTargetOfALink) {
  const fs::path target = folder_ / "target.json";
  std::ofstream(target) << "earlier";
  fs::create_symlink(target, path_);
  ResultFile file(path_);
  file.Append("now", "");
  file.Finish();
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(Read(target), "now");
}

TEST_F(ResultFileTest, IsRefusedIfAnEarlierResultIsReadOnly) {
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

TEST_F(ResultFileTest, IsRefusedWhileInUse) {
  ResultFile first(path_);
  first.Append("{[1", "]}\n");
  try {
    const ResultFile second(path_);
    FAIL() << "the file was taken";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.what(), "cannot write " + path_.string() +
                                ": it is already being written, by another run or another flag of "
                                "this one; name another file");
  }
  EXPECT_EQ(Read(partial_), "{[1]}\n");
  first.Finish();
  EXPECT_NO_THROW(ResultFile{path_});
  EXPECT_EQ(Read(path_), "{[1]}\n");
}

TEST_F(ResultFileTest, IsNotWrittenAfterAbandon) {
  ResultFile file(path_);
  file.Append("{[1", "], still running}\n");
  EXPECT_TRUE(file.Abandon("], interrupted}\n", true));
  file.Append(",2", "]}\n");
  file.Finish();
  EXPECT_EQ(Read(path_), "{[1], interrupted}\n");
}

// Even the same ending cannot be written again, so the file stays as it is.
TEST_F(ResultFileTest, AbandonKeepsAFileThatIsNoLongerWritable) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  ResultFile file(path_);
  file.Append("{[1", "]}\n");
  const rlimit full{0, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  const bool kept = file.Abandon("], the disk is full}\n", true);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(kept);
  EXPECT_EQ(Read(path_), "{[1]}\n");
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(ResultFileTest, AbandonKeepsTheFinishedRows) {
  ResultFile file(path_);
  file.Append("{[1", "], still running}\n");
  EXPECT_TRUE(file.Abandon("], the power failed}\n", true));
  EXPECT_EQ(Read(path_), "{[1], the power failed}\n");
  EXPECT_FALSE(fs::exists(partial_));
  EXPECT_FALSE(file.Abandon("], twice}\n", true));
  EXPECT_EQ(Read(path_), "{[1], the power failed}\n");
}

TEST_F(ResultFileTest, AbandonWithoutRowsLeavesNothing) {
  ResultFile file(path_);
  file.Append("{[", "]}\n");
  EXPECT_FALSE(file.Abandon("]}\n", false));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ResultFileTest, AbandonDoesNothingAfterFinish) {
  ResultFile file(path_);
  file.Append("{[1]}\n", "");
  file.Finish();
  EXPECT_FALSE(file.Abandon("nothing of this", true));
  EXPECT_EQ(Read(path_), "{[1]}\n");
}

// As on a full disk: the row that does not fit is given up, and so is a longer ending.
TEST_F(ResultFileTest, AFailedAppendKeepsTheEarlierRows) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  ResultFile file(path_);
  file.Append("{[1", "]}\n");
  const rlimit full{6, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  EXPECT_THROW(file.Append(",2,3,4", "]}\n"), Error);
  const bool kept = file.Abandon("], the disk is full}\n", true);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(kept);
  EXPECT_EQ(Read(path_), "{[1]}\n");
}

}  // namespace
}  // namespace overlapbench
