#include "report/result_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace overlapbench {
namespace {

[[noreturn]] void ThrowErrno(const std::string& path) {
  throw UsageError("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

ResultFile::ResultFile(const std::string& path) : path_(path), partial_path_(path + ".partial") {
  if (std::filesystem::is_directory(path))
    throw UsageError("cannot write " + path + ": is a directory");
  if (std::filesystem::exists(path) && access(path.c_str(), W_OK) != 0) ThrowErrno(path);
  file_.reset(std::fopen(partial_path_.c_str(), "wb"));
  if (file_ == nullptr) ThrowErrno(path);
}

ResultFile::~ResultFile() {
  if (file_ != nullptr && end_ == 0) unlink(partial_path_.c_str());
}

void ResultFile::Append(const std::string& text, const std::string& ending) {
  const std::string whole = text + ending;
  const bool written = std::fseek(file_.get(), end_, SEEK_SET) == 0 &&
                       std::fwrite(whole.data(), 1, whole.size(), file_.get()) == whole.size() &&
                       std::fflush(file_.get()) == 0;
  if (!written) throw Error("cannot write " + partial_path_ + ": " + std::strerror(errno));
  end_ += static_cast<long>(text.size());
  // An ending may be shorter than the one before it.
  if (ftruncate(fileno(file_.get()), end_ + static_cast<long>(ending.size())) != 0)
    ThrowErrno(path_);
}

void ResultFile::Finish() {
  if (fsync(fileno(file_.get())) != 0) ThrowErrno(partial_path_);
  file_.reset();
  std::error_code code;
  std::filesystem::rename(partial_path_, path_, code);
  if (code) throw Error("cannot write " + path_ + ": " + code.message());
}

}  // namespace overlapbench
