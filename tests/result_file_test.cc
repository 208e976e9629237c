// The result file: complete at any time, never lost, and refused before anything is measured.
#include "report/result_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "child.h"
#include "device/error.h"
#include "thrown.h"

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
using std::chrono_literals::operator""ms;

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
  file.Begin("{[");
  EXPECT_FALSE(fs::exists(path_));
  file.Append("1", "]}\n");
  EXPECT_EQ(Read(path_), "{[1]}\n");
  file.Append(",2", "]}\n");
  EXPECT_EQ(Read(path_), "{[1,2]}\n");
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(ResultFileTest, OverwritesALongerEnding) {
  for (const auto kind : {ResultFile::Kind::kDocument, ResultFile::Kind::kLines}) {
    ResultFile file(path_, kind);
    file.Append("a", "a long ending");
    file.Append("b", "!");
    EXPECT_EQ(Read(path_), "ab!");
    file.Finish();
    EXPECT_EQ(Read(path_), "ab");
  }
}

TEST_F(ResultFileTest, KeepsAnEarlierResultUntilTheFirstRow) {
  std::ofstream(path_) << "earlier";
  ResultFile file(path_);
  file.Begin("{");
  EXPECT_EQ(Read(path_), "earlier");
  file.Append("1", "}");
  EXPECT_EQ(Read(path_), "{1}");
}

TEST_F(ResultFileTest, IsWrittenAtTheEndEvenWithoutRows) {
  ResultFile file(path_);
  file.Begin("a header");
  file.Finish();
  EXPECT_EQ(Read(path_), "a header");
  EXPECT_FALSE(fs::exists(partial_));
}

// It looks as often as it can, at files that grow to several pages.
TEST_F(ResultFileTest, AReaderNeverSeesHalfADocument) {
  std::atomic<bool> ended = false;
  std::atomic<std::size_t> looks = 0;
  std::atomic<std::size_t> torn = 0;
  ResultFile file(path_);
  file.Begin("{");
  file.Append("0", "}");
  std::thread reader([&] {
    while (!ended) {
      const std::string text = Read(path_);
      ++looks;
      if (!text.starts_with("{") || !text.ends_with("}")) ++torn;
    }
  });
  for (int row = 0; row < 200 || looks < 3000; ++row)
    file.Append(row < 200 ? std::string(200, 'x') : "x", row % 2 == 0 ? "}" : ", so far}");
  ended = true;
  reader.join();
  EXPECT_EQ(torn.load(), 0U) << "of " << looks.load();
}

// There may be millions of lines, so they are not written again.
TEST_F(ResultFileTest, LinesAreAppendedInPlace) {
  ResultFile file(path_, ResultFile::Kind::kLines);
  file.Begin("a,b\n");
  EXPECT_FALSE(fs::exists(path_));
  file.Append("1,2\n", "# going on\n");
  struct stat before{};
  struct stat after{};
  stat(path_.c_str(), &before);
  file.Append("3,4\n", "# going on\n");
  stat(path_.c_str(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(Read(path_), "a,b\n1,2\n3,4\n# going on\n");
  fs::remove(path_);
  EXPECT_THROW(file.Append("5,6\n", ""), Error) << "it would be lost";
  std::ofstream(path_) << "another program's";
  EXPECT_THROW(file.Append("5,6\n", ""), Error);
  EXPECT_EQ(Read(path_), "another program's");
}

TEST_F(ResultFileTest, HasThePermissionsOfANewFile) {
  const mode_t before = umask(022);
  ResultFile(path_).Append("1", "");
  umask(before);
  struct stat made{};
  stat(path_.c_str(), &made);
  EXPECT_EQ(made.st_mode & 07777, 0644U);
}

TEST_F(ResultFileTest, KeepsThePermissionsOfAnEarlierResult) {
  std::ofstream(path_) << "earlier";
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  ResultFile file(path_);
  for (const char* row : {"1", "2"}) {
    file.Append(row, "");
    EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
}

// Renamed first, a crash of the machine could leave an empty file in the earlier one's place. Rows
// are flushed as they come for a twentieth of the time, and lines at the end.
TEST_F(ResultFileTest, IsFlushedBeforeItReplacesAnEarlierResult) {
  using Looks = std::vector<std::pair<std::string, std::string>>;  // the earlier file, the new one
  for (const auto& [kind, wanted] :
       {std::pair(ResultFile::Kind::kDocument, Looks{{"earlier", "1"}, {"1", "12"}}),
        {ResultFile::Kind::kLines, {{"earlier", "1"}, {"12", "12"}}}}) {
    std::ofstream(path_) << "earlier";
    ResultFile file(path_, kind);
    Looks there;
    Flush() = [&](int descriptor) {
      there.emplace_back(Read(path_), Read("/proc/self/fd/" + std::to_string(descriptor)));
      std::this_thread::sleep_for(2ms);
      return 0;
    };
    const auto start = std::chrono::steady_clock::now();
    file.Append("1", "");
    std::this_thread::sleep_for(20 * (std::chrono::steady_clock::now() - start));
    file.Append("2", "");
    file.Finish();
    EXPECT_EQ(there, wanted);
    EXPECT_EQ(Read(path_), "12");
  }
}

// A busy disk may take seconds.
TEST_F(ResultFileTest, IsNotFlushedAtEveryRowIfThatTakesLong) {
  int flushes = 0;
  Flush() = [&](int /*descriptor*/) {
    ++flushes;
    std::this_thread::sleep_for(20ms);
    return 0;
  };
  const auto start = std::chrono::steady_clock::now();
  ResultFile file(path_);
  for (int row = 0; row < 50; ++row) file.Append("1", "");
  // A twentieth of the time at most, after the first.
  EXPECT_LE(flushes, 1 + (std::chrono::steady_clock::now() - start) / (20 * 20ms));
  file.Finish();
  EXPECT_GE(flushes, 2);
  EXPECT_EQ(Read(path_), std::string(50, '1'));
}

// The command line is not at fault.
TEST_F(ResultFileTest, KeepsAnEarlierResultIfItCannotBeFlushed) {
  std::ofstream(path_) << "earlier";
  ResultFile file(path_);
  Flush() = [](int /*descriptor*/) {
    errno = EIO;
    return -1;
  };
  const auto complaint = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const UsageError&) {
      return "bad usage";
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string wanted = "cannot write " + path_.string() + ": Input/output error";
  EXPECT_EQ(complaint([&] { file.Append("new", ""); }), wanted);
  EXPECT_EQ(complaint([&] { file.Finish(); }), wanted);
  EXPECT_EQ(Read(path_), "earlier");
}

// Why a file at `path` is refused, as another process sees it after `prepare`.
std::string RefusalOf(const fs::path& path, const std::function<bool()>& prepare = nullptr) {
  Child child([&] {
    if (prepare && !prepare()) return 2;
    std::cerr << Thrown<UsageError>([&] { ResultFile{path}; });
    return 0;
  });
  if (child.End() != 0) return "it could not be prepared";
  const std::string begin = "cannot write " + path.string() + ": ";
  const std::string said = child.Err();
  return said.starts_with(begin) ? said.substr(begin.size()) : said;
}

TEST_F(ResultFileTest, SaysWhyThePathIsRefused) {
  EXPECT_EQ(RefusalOf(folder_ / "missing" / "result.json"), "No such file or directory");
  EXPECT_EQ(RefusalOf(folder_), "is a directory");
  EXPECT_EQ(RefusalOf(folder_ / std::string(300, 'x')), "File name too long");
  EXPECT_TRUE(fs::is_empty(folder_));
  // A file would be renamed into its place.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(RefusalOf(path_), "not a regular file; name another file");
  EXPECT_TRUE(fs::is_fifo(path_));
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(ResultFileTest, IsRefusedIfAnEarlierResultCannotBeReplaced) {
  std::ofstream(path_) << "earlier";
  fs::permissions(path_, fs::perms::owner_read);
  fs::permissions(folder_, fs::perms::all);
  const auto become_another = [] {
    constexpr uid_t kAnother = 65534;
    return geteuid() != 0 || setresuid(kAnother, kAnother, kAnother) == 0;
  };
  EXPECT_EQ(RefusalOf(path_, become_another), "Permission denied");
  const auto mount_over = [this] {
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount(path_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) == 0;
  };
  const std::string mounted = RefusalOf(path_, mount_over);
  if (mounted == "it could not be prepared") GTEST_SKIP() << "only root may mount";
  EXPECT_EQ(mounted, "it is mounted here, so it cannot be replaced; mount a folder");
  EXPECT_EQ(Read(path_), "earlier");
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(ResultFileTest, IsRefusedIfALinkLeadsNowhere) {
  fs::create_symlink(path_, folder_ / "loop");
  fs::create_symlink(folder_ / "loop", path_);
  EXPECT_EQ(RefusalOf(path_), "Too many levels of symbolic links");
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

// Before the first row and after it.
TEST_F(ResultFileTest, IsRefusedWhileInUse) {
  const auto expect_refusal = [&] {
    try {
      const ResultFile second(path_);
      FAIL() << "the file was taken";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), "cannot write " + path_.string() +
                                  ": it is already being written, by another run or another flag "
                                  "of this one; name another file");
    }
  };
  for (const auto kind : {ResultFile::Kind::kDocument, ResultFile::Kind::kLines}) {
    ResultFile first(path_, kind);
    expect_refusal();
    for (const char* row : {"1", "2", "3"}) {
      first.Append(row, "]}\n");
      expect_refusal();
    }
    EXPECT_EQ(Read(path_), "123]}\n");
    first.Finish();
    EXPECT_NO_THROW(ResultFile{path_});
    EXPECT_EQ(Read(path_), "123");
    EXPECT_FALSE(fs::exists(partial_));
  }
}

TEST_F(ResultFileTest, APartialFileIsRemovedUnlessARunWritesIt) {
  fs::create_symlink(folder_ / "target.json", path_);
  const fs::path partial = folder_ / "target.json.partial";
  std::ofstream(folder_ / "target.json") << "earlier";
  {
    const ResultFile file(path_);
    RemovePartial(path_);
    EXPECT_TRUE(fs::exists(partial));
  }
  std::ofstream(partial) << "of a run that was killed";
  RemovePartial(path_);
  EXPECT_FALSE(fs::exists(partial));
}

// Another run may look whether the file is free while the next row is written.
TEST_F(ResultFileTest, OtherRunsThatLookDisturbNoRow) {
  ResultFile file(path_);
  file.Append("0", "");
  std::atomic<bool> ended = false;
  std::thread other([&] {
    while (!ended) EXPECT_THROW(ResultFile{path_}, UsageError);
  });
  std::string all = "0";
  for (int row = 0; row < 300; ++row, all += "1") file.Append("1", "");
  ended = true;
  other.join();
  EXPECT_EQ(Read(path_), all);
}

TEST_F(ResultFileTest, IsNotWrittenAfterAbandon) {
  ResultFile file(path_);
  file.Append("{[1", "], still running}\n");
  EXPECT_TRUE(file.Abandon("], interrupted}\n"));
  file.Append(",2", "]}\n");
  file.Finish();
  EXPECT_EQ(Read(path_), "{[1], interrupted}\n");
}

TEST_F(ResultFileTest, AbandonKeepsTheFinishedRows) {
  ResultFile file(path_);
  file.Append("{[1", "], still running}\n");
  EXPECT_TRUE(file.Abandon("], the power failed}\n"));
  EXPECT_EQ(Read(path_), "{[1], the power failed}\n");
  EXPECT_FALSE(fs::exists(partial_));
  EXPECT_FALSE(file.Abandon("], twice}\n"));
  EXPECT_EQ(Read(path_), "{[1], the power failed}\n");
}

TEST_F(ResultFileTest, AbandonWithoutRowsKeepsAnEarlierResult) {
  std::ofstream(path_) << "earlier";
  ResultFile file(path_);
  file.Begin("{[");
  EXPECT_FALSE(file.Abandon("]}\n"));
  EXPECT_EQ(Read(path_), "earlier");
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(ResultFileTest, AbandonDoesNothingAfterFinish) {
  ResultFile file(path_);
  file.Append("{[1]}\n", "");
  file.Finish();
  EXPECT_FALSE(file.Abandon("nothing of this"));
  EXPECT_EQ(Read(path_), "{[1]}\n");
}

// As on a full disk: the row that does not fit is given up, and so is an ending that does not.
TEST_F(ResultFileTest, AFailedAppendKeepsTheEarlierRows) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  for (const auto kind : {ResultFile::Kind::kDocument, ResultFile::Kind::kLines}) {
    ResultFile file(path_, kind);
    file.Append("{[1", "]}\n");
    const rlimit full{9, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
    EXPECT_THROW(file.Append(",2,3,4", "]}\n"), Error);
    EXPECT_EQ(Read(path_), "{[1]}\n");
    file.Append(",5", "]}\n");
    const bool kept = file.Abandon("], the disk is full}\n");
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_TRUE(kept);
    EXPECT_EQ(Read(path_), "{[1,5]}\n");
    EXPECT_FALSE(fs::exists(partial_));
  }
}

}  // namespace
}  // namespace overlapbench
