#include "benchmarks/prologue.h"

#include <benchmark/benchmark.h>

#include "comm/communicator.h"
#include "kernels/cudnn_softmax.h"

namespace overlapbench {
namespace {

// The versions of the libraries that workloads call on this device.
Context LibraryVersions(const Device& device) {
  if (device.backend() == Backend::kHost) return {};
  Context versions = {{"nccl_version", NcclVersion()}};
  const std::string cudnn = CudnnVersion();
  if (!cudnn.empty()) versions["cudnn_version"] = cudnn;
  return versions;
}

}  // namespace

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

Context AddContext(const Suite& suite, const SelfTest& self_test, const std::string& load) {
  const Context context =
      DescribeRun(suite.machine, suite.options, LibraryVersions(suite.machine.device));
  for (const auto& [key, value] : context) benchmark::AddCustomContext(key, value);
  benchmark::AddCustomContext("self_test", self_test.text);
  if (!load.empty()) benchmark::AddCustomContext("busy", load);
  return context;
}

}  // namespace overlapbench
