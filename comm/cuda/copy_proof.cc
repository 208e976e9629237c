#include "comm/cuda/copy_proof.h"

#include <array>

#include "device/cuda/sm_hold.h"

namespace overlapbench {

bool TakesNoSms(Device& device, Ranks& ranks, const std::function<void(Stream&)>& enqueue) {
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const bool finished = FinishesWithoutSms(
        device, {enqueue, [&](const auto& step) { ranks.Together("holding all SMs", step); },
                 ranks.timeout()});
    std::array<double, 1> unfinished = {finished ? 0.0 : 1.0};
    ranks.Max(unfinished, "agreeing on whether copies took SMs");
    if (unfinished[0] == 0) return true;
  }
  return false;
}

}  // namespace overlapbench
