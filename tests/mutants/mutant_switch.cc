// Turns one mutant of a build on, and notes which ones are reached.
//
//   MUTANT_ON=17           overlapbench_mutant(17) is true, and no other
//   MUTANTS_REACHED=FILE   each process appends to FILE, once, the number of a mutant it reaches
//
// generated_mutants.py puts this file into a copy of the tree, and calls of the function into its
// code. The calls may be anywhere: before main, on any thread, in a signal handler, after fork.

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

bool overlapbench_mutant(int number);

namespace {

constexpr int kMost = 1 << 16;

struct Settings {
  int on = -1;
  std::array<char, 1024> file{};

  Settings() {
    if (const char* text = std::getenv("MUTANT_ON"); text != nullptr) on = std::atoi(text);
    if (const char* text = std::getenv("MUTANTS_REACHED"); text != nullptr)
      std::strncpy(file.data(), text, file.size() - 1);
  }
};

// Whether it has been written: a test may limit how large files grow.
bool Note(const char* file, int number) {
  const int error = errno;
  std::array<char, 16> line{};
  const int length = std::snprintf(line.data(), line.size(), "%d\n", number);
  const int descriptor = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const bool done = descriptor < 0 || write(descriptor, line.data(), length) == length;
  if (descriptor >= 0) close(descriptor);
  errno = error;
  return done;
}

}  // namespace

bool overlapbench_mutant(int number) {
  static const Settings settings;
  static std::array<std::atomic<bool>, kMost> noted;
  if (settings.file[0] != 0 && !noted[number].load(std::memory_order_relaxed) &&
      !noted[number].exchange(true) && !Note(settings.file.data(), number))
    noted[number] = false;
  return number == settings.on;
}
