// ResultFile: an output file (--benchmark_out, --samples_out), written so that nothing finished is
// lost.
//
// While the run goes on, rows go to FILE.partial, which is closed properly after every row: it is
// valid JSON at any time, also when the run dies. At the end it is renamed to FILE. A run that ends
// early keeps what it has in FILE too, closed by an ending that says so (`Abandon`). A process that
// is killed outright leaves FILE.partial. While it is written it is locked (flock), so that two
// runs that are given the same FILE do not mix their rows.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "device/error.h"

namespace overlapbench {

class ResultFile {
 public:
  // Throws UsageError when the file cannot be written, is there and is none, or is being written,
  // before anything is measured.
  explicit ResultFile(const std::string& path);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  // Appends text; the file then holds everything appended and `ending`, which the next Append
  // overwrites. After Abandon nothing is written.
  void Append(const std::string& text, const std::string& ending);
  // Renames the partial file to the final one, unless Abandon has.
  void Finish();
  // The run ends early: the file is kept, with `ending` behind what was appended, or with the last
  // Append's if there is no space for it. Without `keep` nothing is left. May be called from
  // another thread than the rest, and does nothing after Finish. Says whether the file was kept.
  bool Abandon(const std::string& ending, bool keep);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  bool TryWrite(const std::string& text);

  std::mutex mutex_;
  std::string path_;         // as it was given
  std::string target_path_;  // without links
  std::string partial_path_;
  std::string ending_;  // what stands behind the appended text
  std::unique_ptr<std::FILE, Closer> file_;
  long end_ = 0;  // of what was appended, without the ending
};

}  // namespace overlapbench
