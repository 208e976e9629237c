#include "benchmarks/open_device.h"

#include <algorithm>
#include <string>
#include <thread>

namespace overlapbench {
namespace {

// If any rank passes an error, throws it on all ranks as a UsageError.
void RefuseTogether(Ranks& ranks, const std::string& error) {
  try {
    ranks.AgreeOnError(error, "starting");
  } catch (const AgreedError& agreed) {
    throw UsageError(agreed.what());
  }
}

// The ranks take the GPUs in turn.
std::unique_ptr<Device> OpenSharedGpu(Ranks& ranks) {
  RefuseTogether(ranks, CudaUnavailable());
  return OpenCudaDevice(ranks.local_rank() % VisibleGpus());
}

// One GPU per rank. A launcher may also make a single GPU visible to each rank.
std::unique_ptr<Device> OpenGpu(Ranks& ranks) {
  const int visible = VisibleGpus();
  std::string error = CudaUnavailable();
  if (error.empty() && visible > 1 && ranks.local_rank() >= visible) {
    error = std::to_string(ranks.local_size()) + " ranks on this machine but " +
            std::to_string(visible) + " GPUs: start at most one rank per GPU (--ranks " +
            std::to_string(visible) + ")";
  }
  RefuseTogether(ranks, error);
  auto device = OpenCudaDevice(visible > 1 ? ranks.local_rank() : 0);
  const auto identities = ranks.Gather(device->info().identity, "choosing GPUs");
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto first = std::ranges::find(identities, identities[rank]) - identities.begin();
    if (first == rank) continue;
    throw UsageError("more ranks than GPUs: ranks " + std::to_string(first) + " and " +
                     std::to_string(rank) + " have the same GPU; start one rank per GPU");
  }
  return device;
}

std::unique_ptr<Device> OpenHost(const Ranks& ranks, const Options& options) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int share = std::max(1, cores / ranks.local_size());
  return OpenHostDevice(options.host_cores > 0 ? options.host_cores : share);
}

}  // namespace

std::unique_ptr<Device> OpenDevice(Ranks& ranks, const Options& options) {
  const bool cuda = options.backend == Options::BackendChoice::kCuda ||
                    (options.backend == Options::BackendChoice::kAuto && VisibleGpus() > 0);
  const auto choices =
      ranks.Gather(ToString(cuda ? Backend::kCuda : Backend::kHost), "choosing a backend");
  for (const auto& choice : choices) {
    if (choice == choices[0]) continue;
    throw UsageError("some ranks see a GPU and some do not: name the backend with --backend=");
  }
  if (cuda) return options.share_gpu ? OpenSharedGpu(ranks) : OpenGpu(ranks);
  if (options.share_gpu)
    throw UsageError("--share_gpu: the host backend has no GPUs; leave the flag out");
  return OpenHost(ranks, options);
}

}  // namespace overlapbench
