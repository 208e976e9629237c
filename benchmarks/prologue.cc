#include "benchmarks/prologue.h"

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>

#include "comm/communicator.h"
#include "kernels/cudnn_softmax.h"
#include "kernels/linear.h"

namespace overlapbench {
namespace {

// Opens the libraries of workloads before anything is measured, since every run on GPUs needs them.
// Returns why the cuda backend is unavailable; "" if it is available.
std::string StartCuda() {
  std::string error = CudaUnavailable();
  if (!error.empty()) return error;
  try {
    LoadNccl();
    LoadCublasLt();
  } catch (const Error& missing) {
    error = missing.what();
  }
  return error;
}

// The ranks of a machine take its GPUs in turn.
std::unique_ptr<Device> OpenGpu(Ranks& ranks, bool shares) {
  std::string error = StartCuda();
  if (error.empty() && !shares)
    error = TooManyRanks(ranks.local_rank(), ranks.local_size(), VisibleGpus());
  RefuseTogether(ranks, error);
  auto device = OpenCudaDevice(ranks.local_rank() % VisibleGpus());
  if (shares) return device;
  const std::string same = SameGpu(ranks.Gather(device->info().identity, "choosing GPUs"));
  if (!same.empty()) throw UsageError(same);
  return device;
}

std::unique_ptr<Device> OpenHost(const Ranks& ranks, const Options& options) {
  const int share = std::max(1, static_cast<int>(ranks.cores()));
  return OpenHostDevice(options.host_cores > 0 ? options.host_cores : share, ranks.local_size());
}

// The versions of the libraries that workloads call on this device.
Context LibraryVersions(const Device& device) {
  if (device.backend() == Backend::kHost) return {};
  Context versions = {{"nccl_version", NcclVersion()}};
  const std::string cudnn = CudnnVersion();
  if (!cudnn.empty()) versions["cudnn_version"] = cudnn;
  return versions;
}

}  // namespace

// An error that all ranks have is not cut, as texts that they exchange are.
void RefuseTogether(Ranks& ranks, const std::string& error) {
  const std::string what = "starting";
  const bool is_same = ranks.IsSameOnAll(error, what);
  if (is_same && error.empty()) return;
  if (is_same) throw UsageError(error);
  try {
    ranks.AgreeOnError(error, what);
  } catch (const AgreedError& agreed) {
    throw UsageError(agreed.what());
  }
}

std::string TooManyRanks(int local_rank, int local_size, int visible) {
  if (visible <= 1 || local_rank < visible) return "";
  return fmt::format(
      "{} ranks on this machine but {} GPUs: start at most one rank per GPU (--ranks {})",
      local_size, visible, visible);
}

std::string SameGpu(const std::vector<std::string>& identities) {
  for (auto rank = identities.begin(); rank != identities.end(); ++rank) {
    const auto first = std::find(identities.begin(), rank, *rank);
    if (first == rank) continue;
    return fmt::format(
        "more ranks than GPUs: ranks {} and {} have the same GPU; start one rank per GPU",
        first - identities.begin(), rank - identities.begin());
  }
  return "";
}

bool ChoosesCuda(const Options& options) {
  return options.backend == Options::BackendChoice::kCuda ||
         (options.backend == Options::BackendChoice::kAuto && VisibleGpus() > 0);
}

std::unique_ptr<Device> OpenDevice(Ranks& ranks, const Options& options) {
  const std::string what = "choosing a backend";
  bool cuda = false;
  ranks.Together(what, [&] { cuda = ChoosesCuda(options); });
  const auto choices = ranks.Gather(ToString(cuda ? Backend::kCuda : Backend::kHost), what);
  for (const auto& choice : choices) {
    if (choice == choices[0]) continue;
    throw UsageError("some ranks see a GPU and some do not: name the backend with --backend=");
  }
  if (cuda) return OpenGpu(ranks, options.share_gpu);
  if (options.share_gpu)
    throw UsageError("--share_gpu: the host backend has no GPUs; leave the flag out");
  return OpenHost(ranks, options);
}

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

FirstLook LookAround(Suite& suite) {
  const Machine& machine = suite.machine;
  const bool by_nccl = machine.device.backend() == Backend::kCuda && !machine.shares_gpus;
  const FirstLook look{LoadBefore(machine), by_nccl ? NcclNetwork(machine) : ""};
  if (suite.options.energy != EnergyOf::kNothing) suite.energy = LookAtEnergy(machine);
  return look;
}

Context AddContext(const Suite& suite, const SelfTest& self_test, const FirstLook& first_look) {
  Context libraries = LibraryVersions(suite.machine.device);
  if (!first_look.network.empty()) libraries["nccl_network"] = first_look.network;
  if (const auto& energy = suite.energy) {
    const bool is_missing = !energy->missing.empty();
    libraries["energy"] =
        is_missing ? "not available: " + energy->missing
                   : fmt::format("{}, a tick every {:.3g} ms", energy->counter, energy->period_ms);
    if (!is_missing) libraries["idle_W"] = fmt::format("{:.4g}", energy->idle_W);
  }
  const Context context = DescribeRun(suite.machine, suite.options, libraries);
  for (const auto& [key, value] : context) benchmark::AddCustomContext(key, value);
  benchmark::AddCustomContext("self_test", self_test.text);
  if (!self_test.handover.empty()) benchmark::AddCustomContext("handover", self_test.handover);
  if (!first_look.load.empty()) benchmark::AddCustomContext("busy", first_look.load);
  return context;
}

}  // namespace overlapbench
