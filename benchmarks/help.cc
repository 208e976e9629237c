#include "benchmarks/help.h"

#include <iostream>
#include <string>

#include "fixtures/options.h"

namespace overlapbench {
namespace {

void PrintAxesOf(const std::string& owner, const std::vector<Axis>& axes) {
  std::cout << owner << "\n";
  for (const auto& axis : axes) {
    std::cout << "  " << axis.name << " = ";
    for (std::size_t i = 0; i < axis.values.size(); ++i) {
      std::cout << (i > 0 ? "," : "") << axis.values[i];
    }
    std::cout << "  (" << axis.help << ")\n";
  }
}

}  // namespace

void PrintHelp() {
  std::cout
      << "overlapbench: what overlapping computation and communication costs on this machine.\n\n"
         "Families: Compute, Comm, Overlap, Copy, Priority, Supply, Launch, Gelu, Softmax,\n"
         "Mlp.\n"
         "A name reads Family/Workload[+Workload]/axis:value/...\n\n"
         "Examples:\n"
         "  --benchmark_filter=Overlap\n"
         "  --benchmark_filter='Overlap/AllToAll.Gemm' --axis bytes=1M,64M --axis grid=1x1,16x16\n"
         "  --benchmark_filter=Copy/Pipelined --axis pipeline_streams=1,4 --axis intensity=2048\n"
         "  --benchmark_filter=Comm --axis cache=warm --axis cadence=streaming   (as nccl-tests "
         "does)\n"
         "  --benchmark_out=result.json --benchmark_repetitions=3\n\nFlags:\n"
      << OptionsHelp()
      << "  --query=gpus               print the number of visible GPUs, and end\n\n"
         "Google Benchmark's flags, such as --benchmark_filter=REGEX, --benchmark_list_tests,\n"
         "--benchmark_out=FILE.json, --benchmark_min_time= and --benchmark_repetitions=, work as\n"
         "they do there.\n";
}

void PrintAxes(const Registry& registry, const Plan& plan) {
  for (const auto& spec : registry.specs()) {
    const std::string& missing = spec.missing;
    PrintAxesOf(spec.name + ": " + (missing.empty() ? spec.summary : "not available: " + missing),
                spec.axes);
  }
  PrintAxesOf("The method: of every sample (cache, cadence), and of some families:",
              plan.method_axes());
}

}  // namespace overlapbench
