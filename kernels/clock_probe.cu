#include "device/cuda/gpu_clock.h"
#include "device/launch.h"
#include "kernels/clock_probe.h"

namespace overlapbench {
namespace {

// Sums over all runs, in page-locked memory that both sides see. Only one thread adds to them.
struct Counts {
  unsigned long long cycles;
  unsigned long long elapsed_ns;
};

struct ClockProbeBody {
  static constexpr int kThreads = 1;
  unsigned long long duration_ns;
  volatile Counts* counts;

  OVERLAPBENCH_BODY void operator()(const Block& /*block*/) const {
#ifdef __CUDA_ARCH__
    const unsigned long long started_ns = GpuNow_ns();
    const auto started = static_cast<unsigned long long>(clock64());
    unsigned long long now_ns = started_ns;
    while (now_ns - started_ns < duration_ns) now_ns = GpuNow_ns();
    counts->cycles = counts->cycles + static_cast<unsigned long long>(clock64()) - started;
    counts->elapsed_ns = counts->elapsed_ns + (now_ns - started_ns);
#endif
  }
};

class ClockProbe : public Workload {
 public:
  ClockProbe(const Machine& machine, double duration_us)
      : duration_ns_(static_cast<unsigned long long>(1000 * duration_us)),
        counts_(machine.device.Allocate(sizeof(Counts), MemoryKind::kPinned)) {}

  [[nodiscard]] Cost cost() const override { return {}; }
  void Reset(Stream& /*stream*/) override { counts() = {}; }
  void Enqueue(Stream& stream) override {
    Launch(stream, 1, ClockProbeBody{duration_ns_, &counts()});
  }
  Verdict Verify(Stream& stream) override {
    if (stream.on_host() || counts().elapsed_ns >= duration_ns_) return {};
    return {1, 0, "the clock's probe ended before its time"};
  }
  [[nodiscard]] std::optional<double> Observed() const override {
    if (counts().elapsed_ns == 0) return std::nullopt;
    return static_cast<double>(counts().cycles) / static_cast<double>(counts().elapsed_ns);
  }

 private:
  [[nodiscard]] Counts& counts() const { return *static_cast<Counts*>(counts_.data()); }

  unsigned long long duration_ns_;
  Buffer counts_;
};

}  // namespace

std::unique_ptr<Workload> MakeClockProbe(const Machine& machine, double duration_us) {
  return std::make_unique<ClockProbe>(machine, duration_us);
}

}  // namespace overlapbench
