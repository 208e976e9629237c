// ResultFile: an output file (--benchmark_out, --samples_out), written so that nothing finished is
// lost.
//
// While the run goes on, rows go to FILE.partial, which is closed properly after every row: it is
// valid JSON at any time, also when the run dies. At the end it is renamed to FILE, which therefore
// exists whole or not at all.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "device/error.h"

namespace overlapbench {

class ResultFile {
 public:
  // Throws UsageError when the file cannot be written, before anything is measured.
  explicit ResultFile(const std::string& path);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  // Appends text; the file then holds everything appended and `ending`, which the next Append
  // overwrites.
  void Append(const std::string& text, const std::string& ending);
  // Renames the partial file to the final one.
  void Finish();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::string partial_path_;
  std::unique_ptr<std::FILE, Closer> file_;
  long end_ = 0;  // of what was appended, without the ending
};

}  // namespace overlapbench
