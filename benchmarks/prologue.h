// Prologue: what comes before the first row of a process: its device, Google Benchmark's flags, and
// the context, which says where the rows come from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/self_test.h"
#include "device/device.h"
#include "fixtures/context.h"
#include "fixtures/timed_fixture.h"
#include "ranks/ranks.h"

namespace overlapbench {

// Whether this process would take a GPU: --backend=cuda, or auto and a GPU is visible. Throws Error
// if the driver fails.
bool ChoosesCuda(const Options& options);

// One GPU per rank if there are GPUs. Otherwise the machine's ranks share its cores. --backend and
// --host_cores override this. Called by all ranks together. Throws UsageError on all of them if
// ranks would share a GPU without --share_gpu, or have different backends.
std::unique_ptr<Device> OpenDevice(Ranks& ranks, const Options& options);

// If any rank passes an error, throws it on all ranks as a UsageError.
void RefuseTogether(Ranks& ranks, const std::string& error);

// Why this rank has no GPU of its own if so many are visible to it; "" if it has. A launcher may
// also make a single one visible to each rank.
std::string TooManyRanks(int local_rank, int local_size, int visible);

// The first two ranks that have the same GPU, as a text; "" if each has its own.
std::string SameGpu(const std::vector<std::string>& identities);

// Call once per process. Fills `flags`, which must outlive the run, because Google Benchmark keeps
// a pointer to the program's name. Throws UsageError if Google Benchmark refuses a flag.
void InitializeGoogleBenchmark(const Options& options, std::vector<std::string>& flags);

// What is found before anything is measured.
struct FirstLook {
  std::string load;     // what else runs here (LoadBefore)
  std::string network;  // between hosts (NcclNetwork)
};
// Called by all ranks together, before the self-test. Sets the suite's energy, with --energy.
FirstLook LookAround(Suite& suite);

// Describes the run (fixtures/context.h) and adds all of it to the JSON's context, with what the
// self-test found. Called by all ranks together, once.
Context AddContext(const Suite& suite, const SelfTest& self_test, const FirstLook& first_look);

}  // namespace overlapbench
