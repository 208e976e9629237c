#include "device/launch.h"
#include "kernels/trap.h"

namespace overlapbench {
namespace {

struct TrapBody {
  static constexpr int kThreads = 1;

  OVERLAPBENCH_BODY void operator()(const Block& /*block*/) const {
#ifdef __CUDA_ARCH__
    __trap();
#else
    throw Error("a kernel failed");
#endif
  }
};

}  // namespace

void EnqueueTrap(Stream& stream) { Launch(stream, 1, TrapBody{}); }

}  // namespace overlapbench
