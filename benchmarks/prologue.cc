#include "benchmarks/prologue.h"

#include <benchmark/benchmark.h>

#include "fixtures/context.h"

namespace overlapbench {

void InitializeGoogleBenchmark(const Options& options, std::vector<std::string>& flags) {
  flags = {"overlapbench"};
  flags.insert(flags.end(), options.google_benchmark_flags.begin(),
               options.google_benchmark_flags.end());
  // Given last, these override the environment. Rank 0's reporter writes the file and shows the
  // rows, and only the chosen benchmarks are registered.
  flags.insert(flags.end(),
               {"--benchmark_out=", "--benchmark_filter=.", "--benchmark_format=console"});
  std::vector<char*> pointers;
  for (auto& flag : flags) pointers.push_back(flag.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (count > 1) throw UsageError(std::string("Google Benchmark refuses the flag ") + pointers[1]);
}

std::map<std::string, std::string> AddContext(const Suite& suite, const SelfTest& self_test,
                                              const std::string& load) {
  const auto context = DescribeRun(suite.machine, suite.options);
  for (const auto& [key, value] : context) benchmark::AddCustomContext(key, value);
  benchmark::AddCustomContext("self_test", self_test.text);
  if (!load.empty()) benchmark::AddCustomContext("busy", load);
  return context;
}

}  // namespace overlapbench
