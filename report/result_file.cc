#include "report/result_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace overlapbench {
namespace {

[[noreturn]] void ThrowErrno(const std::string& path) {
  throw UsageError("cannot write " + path + ": " + std::strerror(errno));
}

// What the partial file will be renamed to: `path`, or its target if it is a link. Only a regular
// file may be replaced; renaming would replace a device node too.
std::string TargetOf(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::none) {
    throw UsageError("cannot write " + path + ": " + code.message());
  }
  if (!std::filesystem::exists(status)) return path;
  if (std::filesystem::is_directory(status))
    throw UsageError("cannot write " + path + ": is a directory");
  if (!std::filesystem::is_regular_file(status))
    throw UsageError("cannot write " + path + ": not a regular file; name another file");
  if (access(path.c_str(), W_OK) != 0) ThrowErrno(path);
  const auto target = std::filesystem::canonical(path, code);
  if (code) throw UsageError("cannot write " + path + ": " + code.message());
  return target;
}

// Whether another process has renamed or removed the file since it was opened.
bool IsGone(int descriptor, const std::string& path) {
  struct stat opened{};
  struct stat there{};
  return fstat(descriptor, &opened) != 0 || stat(path.c_str(), &there) != 0 ||
         opened.st_ino != there.st_ino || opened.st_dev != there.st_dev;
}

// Opens, locks and empties the file at `path`. On file systems without locks it is not locked. It
// must not be emptied before it is locked, because it may be another run's.
int OpenLocked(const std::string& path, const std::string& shown) {
  while (true) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) ThrowErrno(shown);
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(descriptor);
      throw UsageError("cannot write " + shown +
                       ": it is already being written, by another run or another flag of this one; "
                       "name another file");
    }
    if (!IsGone(descriptor, path)) {
      if (ftruncate(descriptor, 0) == 0) return descriptor;
      const int code = errno;
      close(descriptor);
      errno = code;
      ThrowErrno(shown);
    }
    close(descriptor);  // another run has just finished and renamed it
  }
}

}  // namespace

ResultFile::ResultFile(const std::string& path)
    : path_(path), target_path_(TargetOf(path)), partial_path_(target_path_ + ".partial") {
  file_.reset(fdopen(OpenLocked(partial_path_, path), "wb"));
  // NOLINTNEXTLINE(clang-analyzer-unix.Stream): the member closes the stream.
  if (file_ == nullptr) ThrowErrno(path);
  // After a failed write, nothing may remain in a buffer.
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
}

ResultFile::~ResultFile() {
  if (file_ != nullptr && end_ == 0) unlink(partial_path_.c_str());
}

void ResultFile::Append(const std::string& text, const std::string& ending) {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  if (!TryWrite(text + ending)) {
    throw Error("cannot write " + partial_path_ + ": " + std::strerror(errno));
  }
  end_ += static_cast<long>(text.size());
  ending_ = ending;
}

// Replaces whatever follows the appended text, which may have been longer.
bool ResultFile::TryWrite(const std::string& text) {
  return std::fseek(file_.get(), end_, SEEK_SET) == 0 &&
         std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() &&
         ftruncate(fileno(file_.get()), end_ + static_cast<long>(text.size())) == 0;
}

void ResultFile::Finish() {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  if (fsync(fileno(file_.get())) != 0) ThrowErrno(partial_path_);
  file_.reset();
  std::error_code code;
  std::filesystem::rename(partial_path_, target_path_, code);
  if (code) throw Error("cannot write " + path_ + ": " + code.message());
}

bool ResultFile::Abandon(const std::string& ending, bool keep) {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return false;
  if (keep) {
    // A write that fails halfway is undone. One that fails at once has changed nothing.
    if (!TryWrite(ending)) TryWrite(ending_);
    std::filesystem::rename(partial_path_, target_path_);
  } else {
    unlink(partial_path_.c_str());
  }
  file_.reset();
  return keep;
}

}  // namespace overlapbench
