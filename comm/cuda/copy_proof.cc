#include "comm/cuda/copy_proof.h"

#include <array>

#include "device/cuda/sm_hold.h"

namespace overlapbench {

bool TakesNoSms(Device& device, Ranks& ranks, const std::function<void(Stream&)>& enqueue) {
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::array<double, 1> unfinished = {1};
    // In a step, an error on one rank ends the attempt on all before they compare their results.
    ranks.Together("proving that copies take no SM", [&] {
      const auto hold = [&](const auto& step) { ranks.Together("holding all SMs", step); };
      if (FinishesWithoutSms(device, {enqueue, hold, ranks.timeout()})) unfinished[0] = 0;
    });
    ranks.Max(unfinished, "agreeing on whether copies took SMs");
    if (unfinished[0] == 0) return true;
  }
  return false;
}

}  // namespace overlapbench
