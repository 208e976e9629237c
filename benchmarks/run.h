// RunAll: lets Google Benchmark run the chosen benchmarks, and writes the result files.
#pragma once

#include <vector>

#include "benchmarks/self_test.h"
#include "fixtures/timed_fixture.h"
#include "ranks/watchdog.h"
#include "report/counters.h"

namespace overlapbench {

// Called by all ranks together, once. Returns the exit status. Throws UsageError, before anything
// is measured, if a file is not writable or Google Benchmark refuses a flag. Later errors end the
// job and keep the finished rows. `known`: the self-test's rows; if empty, it is left out.
int RunAll(Watchdog& watchdog, Suite& suite, const CounterTable& table,
           const std::vector<Benchmark>& known, const std::vector<Benchmark>& chosen);
// The exit status if all rows were measured, but the self-test failed.
inline constexpr int kNotToBeTrusted = 3;

}  // namespace overlapbench
