// An injected delay: makes one computation slower on purpose, to prove that a gate would detect it.
//
// `--inject_delay=REGEX:MICROSECONDS` lengthens the computation of every benchmark whose name
// matches. It enqueues a Delay (kernels/delay.cu) after it, in solo and overlapped runs alike.
// Nothing else changes; results are still verified. The context has the key `injected_delay`, so
// such a result cannot pass for a measurement.
#pragma once

#include <string_view>
#include <vector>

#include "fixtures/benchmark.h"
#include "workload/registry.h"

namespace overlapbench {

// Changes the benchmarks that match. The delayed work is the first computation of the benchmark's
// own run or, if there is none, its first work. It is delayed in every run that contains it. The
// registry must outlive the benchmarks. Throws UsageError if `flag` is malformed or matches no
// benchmark.
void InjectDelay(std::string_view flag, const Registry& registry,
                 std::vector<Benchmark>& benchmarks);
// Throws UsageError if `flag` is malformed.
void RequireInjectable(std::string_view flag, const Registry& registry);
// As InjectDelay, but no benchmark needs to match. Returns whether one does.
bool InjectDelayIfAny(std::string_view flag, const Registry& registry,
                      std::vector<Benchmark>& benchmarks);

}  // namespace overlapbench
