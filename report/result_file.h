// ResultFile: an output file (--benchmark_out, --samples_out) that never loses a finished row.
//
// During the run, rows go to FILE.partial. It is completed after every row, so it is valid JSON at
// any time, even if the run dies. At the end it is renamed to FILE. If the run ends early, FILE
// keeps the finished rows, and its ending says that it is incomplete (`Abandon`). A process that is
// killed outright leaves FILE.partial. The partial file is locked (flock), so two runs that are
// given the same FILE do not mix their rows.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "device/error.h"

namespace overlapbench {

class ResultFile {
 public:
  // Throws UsageError, before anything is measured, if the file is not writable, is not a regular
  // file, or is in use.
  explicit ResultFile(const std::string& path);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  // Appends text. The file then holds everything appended so far and `ending`, which the next
  // Append overwrites. Does nothing after Abandon.
  void Append(const std::string& text, const std::string& ending);
  // Renames the partial file to the final one. Does nothing after Abandon.
  void Finish();
  // The run ends early. With `keep`, the file is kept and closed by `ending`, or by the last
  // Append's ending if there is no space for it. Without `keep`, the file is removed. Returns
  // whether it was kept. May be called from any thread; does nothing after Finish.
  bool Abandon(const std::string& ending, bool keep);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  bool TryWrite(const std::string& text);

  std::mutex mutex_;
  std::string path_;         // as given
  std::string target_path_;  // with symbolic links resolved
  std::string partial_path_;
  std::string ending_;  // what now follows the appended text
  std::unique_ptr<std::FILE, Closer> file_;
  long end_ = 0;  // size of what was appended, without the ending
};

}  // namespace overlapbench
