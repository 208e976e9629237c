// ResultFile: an output file (--benchmark_out, --samples_out, --trace_out) that is complete at any
// time and never loses a finished row.
//
// FILE first exists, or replaces an earlier FILE, when the first row is appended. From then on it
// holds all rows and an ending, which says that the run has not ended until Finish removes it. A
// run that is killed therefore loses nothing but the row that it was measuring.
//
// - A *document*, such as JSON, is written as a whole to FILE.partial at every row and renamed to
//   FILE, so that no reader sees half of it. It is flushed to the disk before, unless flushing has
//   taken more than a twentieth of the run so far: then only the last version is flushed.
// - *Lines* are appended to FILE in place, since there may be millions. A reader may see half a
//   line.
//
// FILE.partial exists until the first row, and for moments later. A killed process may leave one;
// ./bench removes it, or else the next run takes it over. The file that is being written is locked
// (flock), so two runs that are given the same FILE do not mix their rows.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "device/error.h"

namespace overlapbench {

// Why a file without a row for each benchmark is incomplete, as long as it cannot say more.
inline constexpr const char* kStillRunning = "the run is still going, or was killed";

class ResultFile {
 public:
  enum class Kind { kDocument, kLines };
  // Throws UsageError, before anything is measured, if the file is not writable, is not a regular
  // file, cannot be replaced, or is in use.
  explicit ResultFile(const std::string& path, Kind kind = Kind::kDocument);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  // What precedes the first row.
  void Begin(const std::string& text);
  // Appends text. FILE then holds everything appended so far and `ending`, which the next Append
  // overwrites. Throws Error if it cannot be written: FILE is then as before. Does nothing after
  // Abandon.
  void Append(const std::string& text, const std::string& ending);
  // Removes the ending and flushes the file to the disk. Throws Error if that fails. Does nothing
  // after Abandon.
  void Finish();
  // The run ends early. If FILE has rows, it is closed by `ending`, or by the last Append's ending
  // if there is no space for it. Otherwise an earlier FILE stays. Returns whether FILE has rows.
  // May be called from any thread; does nothing after Finish.
  bool Abandon(const std::string& ending);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Closer>;

  File OpenPartial() const;
  bool Write(const std::string& ending);
  bool Replace(const std::string& ending);
  bool Extend(const std::string& ending);
  bool Flush(int descriptor);
  [[noreturn]] void ThrowErrno() const;

  std::mutex mutex_;
  std::string path_;         // as given
  std::string target_path_;  // with symbolic links resolved
  std::string partial_path_;
  Kind kind_;
  std::string text_;    // a document: all of it; lines: those that are not yet in the file
  std::string ending_;  // what now follows them in FILE
  File file_;           // FILE, or FILE.partial before the first row; nullptr after the end
  bool has_rows_ = false;
  bool is_flushed_ = false;
  long end_ = 0;  // size of the lines in FILE, without the ending
  Clock::time_point opened_ = Clock::now();
  Clock::duration flushing_{};
};

// Removes the FILE.partial of a run that was killed, unless another run writes it.
void RemovePartial(const std::string& path);

}  // namespace overlapbench
