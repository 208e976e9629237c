// Rapl: the energy that this machine's CPU packages have used, as the CPU counts it itself (running
// average power limit; Intel, and AMD since Zen).
//
// The kernel shows the counters in /sys/class/powercap, to root alone unless it is told otherwise;
// virtual machines and most containers have none. Each wraps within the hour on a busy server.
//
// Source: Linux kernel documentation, "Power Capping Framework".
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "device/energy_meter.h"

namespace overlapbench {

class Rapl : public EnergyCounter {
 public:
  // `root` is where /sys is.
  explicit Rapl(const std::filesystem::path& root = "/");

  // The sum over the packages, since the first reading.
  [[nodiscard]] double Read_J() override;
  [[nodiscard]] std::string name() const override { return "RAPL"; }
  [[nodiscard]] bool is_of_machine() const override { return true; }

 private:
  struct Package {
    std::filesystem::path file;
    double range_uJ = 0;    // where the counter wraps
    double before_uJ = -1;  // the last reading; negative: none
  };
  [[nodiscard]] static double Since(const Package& package, double now_uJ);

  std::vector<Package> packages_;
  double sum_ = 0;  // microjoules
};

}  // namespace overlapbench
