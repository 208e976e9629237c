#include "device/host/rapl.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "device/error.h"

namespace overlapbench {
namespace {

using std::filesystem::path;

std::optional<double> ReadNumber(const path& file) {
  double number = 0;
  std::ifstream text(file);
  return text >> number ? std::optional(number) : std::nullopt;
}

std::string ReadWord(const path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

}  // namespace

// A package's folder also has folders of its parts, which it includes: cores, memory.
Rapl::Rapl(const path& root) {
  std::error_code none;
  const path folder = root / "sys/class/powercap";
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (!ReadWord(entry.path() / "name").starts_with("package-")) continue;
    packages_.push_back({.file = entry.path() / "energy_uj",
                         .range_uJ = ReadNumber(entry.path() / "max_energy_range_uj").value_or(0)});
  }
}

double Rapl::Read_J() {
  constexpr double kJoulesInMicrojoule = 1e-6;
  if (packages_.empty()) throw Error("this machine shows no RAPL counters in /sys/class/powercap");
  for (Package& package : packages_) {
    errno = 0;
    const auto now_uJ = ReadNumber(package.file);
    if (!now_uJ) {
      const char* const why = errno == 0 ? "not a number" : std::strerror(errno);
      throw Error(fmt::format("{}: {}{}", package.file.string(), why,
                              errno == EACCES ? "; root may read it, or chmod a+r it" : ""));
    }
    sum_ += Since(package, *now_uJ);
    package.before_uJ = *now_uJ;
  }
  return kJoulesInMicrojoule * sum_;
}

// A counter that wraps was near its end, and is near its beginning: else it was reset.
double Rapl::Since(const Package& package, double now_uJ) {
  if (package.before_uJ < 0) return 0;
  const double since_uJ = now_uJ - package.before_uJ;
  if (since_uJ >= 0) return since_uJ;
  if (package.before_uJ < package.range_uJ / 2 || now_uJ > package.range_uJ / 2)
    throw Error(package.file.string() + " went backwards: it was reset");
  return since_uJ + package.range_uJ;
}

}  // namespace overlapbench
