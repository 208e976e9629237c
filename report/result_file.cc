#include "report/result_file.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "device/descriptor.h"

namespace overlapbench {
namespace {

[[noreturn]] void Refuse(const std::string& path, const std::string& why) {
  throw UsageError("cannot write " + path + ": " + why);
}

// A file that is mounted over another, as into a container, cannot be replaced.
bool IsMounted(const std::string& path) {
  struct statx about{};
  return statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE, &about) == 0 &&
         (about.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

// What the partial file will be renamed to: `path`, or its target if it is a link. Only a regular
// file may be replaced; renaming would replace a device node too.
std::string TargetOf(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::none) Refuse(path, code.message());
  if (!std::filesystem::exists(status)) return path;
  if (std::filesystem::is_directory(status)) Refuse(path, "is a directory");
  if (!std::filesystem::is_regular_file(status))
    Refuse(path, "not a regular file; name another file");
  if (access(path.c_str(), W_OK) != 0) Refuse(path, std::strerror(errno));
  if (IsMounted(path)) Refuse(path, "it is mounted here, so it cannot be replaced; mount a folder");
  const auto target = std::filesystem::canonical(path, code);
  if (code) Refuse(path, code.message());
  return target;
}

// Whether another process has renamed or removed the file since it was opened.
bool IsGone(int descriptor, const std::string& path) {
  struct stat opened{};
  struct stat there{};
  return fstat(descriptor, &opened) != 0 || stat(path.c_str(), &there) != 0 ||
         opened.st_ino != there.st_ino || opened.st_dev != there.st_dev;
}

// Whether another run writes the file at `path`, or has just replaced it.
bool IsInUse(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.empty()) return false;
  const bool is_locked = flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return is_locked || IsGone(file.get(), path);
}

// Writes `text` at `begin`, in place of all that was there.
bool Put(std::FILE* file, long begin, const std::string& text) {
  return std::fseek(file, begin, SEEK_SET) == 0 &&
         std::fwrite(text.data(), 1, text.size(), file) == text.size() &&
         ftruncate(fileno(file), begin + static_cast<long>(text.size())) == 0;
}

}  // namespace

ResultFile::ResultFile(const std::string& path, Kind kind)
    : path_(path),
      target_path_(TargetOf(path)),
      partial_path_(target_path_ + ".partial"),
      kind_(kind) {
  file_ = OpenPartial();
  if (file_ != nullptr && IsInUse(target_path_)) {
    unlink(partial_path_.c_str());
    file_.reset();
    errno = EWOULDBLOCK;
  }
  if (file_ != nullptr) return;
  Refuse(path, errno != EWOULDBLOCK ? std::strerror(errno)
                                    : "it is already being written, by another run or another "
                                      "flag of this one; name another file");
}

ResultFile::~ResultFile() {
  if (file_ != nullptr && !has_rows_) unlink(partial_path_.c_str());
}

// Opens, locks and empties FILE.partial; nullptr, and errno, if that fails. On file systems without
// locks it is not locked. It must not be emptied before it is locked, because it may be another
// run's. Once FILE has rows it is locked, and another run takes FILE.partial only until it sees so.
ResultFile::File ResultFile::OpenPartial() const {
  while (true) {
    const int descriptor = open(partial_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) return nullptr;
    // NOLINTNEXTLINE(clang-analyzer-unix.Stream): the caller's pointer closes the stream.
    File file(fdopen(descriptor, "wb"));
    if (file == nullptr) return nullptr;
    // After a failed write, nothing may remain in a buffer.
    std::setvbuf(file.get(), nullptr, _IONBF, 0);
    const bool is_free = flock(descriptor, has_rows_ ? LOCK_EX : LOCK_EX | LOCK_NB) == 0;
    if (!is_free && errno == EWOULDBLOCK) return nullptr;
    if (IsGone(descriptor, partial_path_)) continue;  // another run has just renamed it
    if (ftruncate(descriptor, 0) != 0) return nullptr;
    return file;
  }
}

void ResultFile::Begin(const std::string& text) {
  const std::lock_guard lock(mutex_);
  text_ = text;
}

void ResultFile::Append(const std::string& text, const std::string& ending) {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  const std::size_t before = text_.size();
  text_ += text;
  if (Write(ending)) return;
  text_.resize(before);
  ThrowErrno();
}

bool ResultFile::Write(const std::string& ending) {
  if (!(kind_ == Kind::kLines && has_rows_ ? Extend(ending) : Replace(ending))) return false;
  ending_ = ending;
  return true;
}

// Writes all of it to FILE.partial, and renames that to FILE. An earlier FILE's permissions stay.
bool ResultFile::Replace(const std::string& ending) {
  File next = has_rows_ ? OpenPartial() : std::move(file_);
  if (next == nullptr) return false;
  const int descriptor = fileno(next.get());
  constexpr mode_t kPermissions = 0777;
  struct stat earlier{};
  bool done = stat(target_path_.c_str(), &earlier) != 0 ||
              fchmod(descriptor, earlier.st_mode & kPermissions) == 0;
  is_flushed_ = false;
  const bool must_flush = !has_rows_ || flushing_ * 20 <= Clock::now() - opened_;
  done = done && Put(next.get(), 0, text_ + ending) && (!must_flush || Flush(descriptor)) &&
         std::rename(partial_path_.c_str(), target_path_.c_str()) == 0;
  if (!done && has_rows_) {
    const int code = errno;
    unlink(partial_path_.c_str());
    errno = code;
    return false;
  }
  file_ = std::move(next);
  if (!done) return false;
  has_rows_ = true;
  end_ = static_cast<long>(text_.size());
  if (kind_ == Kind::kLines) text_.clear();
  return true;
}

// A write that fails halfway is undone.
bool ResultFile::Extend(const std::string& ending) {
  errno = ENOENT;
  if (IsGone(fileno(file_.get()), target_path_)) return false;
  is_flushed_ = false;
  if (!Put(file_.get(), end_, text_ + ending)) {
    const int code = errno;
    Put(file_.get(), end_, ending_);
    errno = code;
    return false;
  }
  end_ += static_cast<long>(text_.size());
  text_.clear();
  return true;
}

bool ResultFile::Flush(int descriptor) {
  const auto start = Clock::now();
  is_flushed_ = fsync(descriptor) == 0;
  flushing_ += Clock::now() - start;
  return is_flushed_;
}

void ResultFile::Finish() {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  if ((!has_rows_ || !ending_.empty()) && !Write("")) ThrowErrno();
  if (!is_flushed_ && !Flush(fileno(file_.get()))) ThrowErrno();
  file_.reset();
}

bool ResultFile::Abandon(const std::string& ending) {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return false;
  if (has_rows_)
    Write(ending);  // or the last ending stays
  else
    unlink(partial_path_.c_str());
  file_.reset();
  return has_rows_;
}

void ResultFile::ThrowErrno() const {
  throw Error("cannot write " + path_ + ": " + std::strerror(errno));
}

void RemovePartial(const std::string& path) {
  std::error_code code;
  const std::string target = std::filesystem::canonical(path, code);
  const std::string partial = (code ? path : target) + ".partial";
  const Descriptor file(open(partial.c_str(), O_RDWR | O_CLOEXEC));
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) unlink(partial.c_str());
}

}  // namespace overlapbench
