#include "report/counters.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/error.h"
#include "report/json.h"

namespace overlapbench {
namespace {

constexpr auto kLower = Better::kLower;
constexpr auto kHigher = Better::kHigher;
constexpr auto kNeither = Better::kNeither;

// What is known of the row's time; T is the median time of its own run.
std::vector<Counter> TimeCounters() {
  return {
      {"time", "ms", kLower, Range::kPositive, "time",
       "median time of the row's own run, T (Google Benchmark's real_time)", true},
      {"time_low_ms", "ms", kLower, Range::kSigned, "time, low",
       "lower end of the 95 % interval of T"},
      {"time_high_ms", "ms", kLower, Range::kPositive, "time, high",
       "upper end of the 95 % interval of T"},
      {"margin_pct", "%", kLower, Range::kNotNegative, "margin",
       "100 x half the width of T's 95 % interval / T; or the same of T / the row's longest other "
       "run, if larger"},
      {"p05_ms", "ms", kLower, Range::kNotNegative, "p05", "5th percentile of the row's samples"},
      {"p95_ms", "ms", kLower, Range::kNotNegative, "p95", "95th percentile of the row's samples"},
      {"cv", "", kLower, Range::kNotNegative, "cv",
       "coefficient of variation of the samples: standard deviation (n - 1) / mean; 0 with fewer "
       "than two"},
      {"samples", "count", kNeither, Range::kPositive, "samples", "number of samples"},
      {"skew_us", "us", kLower, Range::kNotNegative, "skew",
       "median time between the first and the last rank that opened its gate"},
      {"empty_sample_us", "us", kLower, Range::kNotNegative, "empty sample",
       "median time of a sample with the same lanes and nothing on them"},
      {"core_wait_pct", "%", kLower, Range::kNotNegative, "waited for a core",
       "100 x w / (w + r): while samples were taken, a thread was ready for w but had no core, and "
       "ran for r, or the samples' time if that is longer; the thread with the greatest share. "
       "Threads of the ranks wait for each other, too"},
      {"foreign_cores", "count", kLower, Range::kNotNegative, "others' cores",
       "while the row was set up and measured, cores that other processes kept busy, of those that "
       "each rank may use; the rank with the most"},
      {"foreign_gpu_processes", "count", kLower, Range::kNotNegative, "others on the GPU",
       "cuda backend: processes that used a rank's GPU and are not ranks; the rank with the most"},
  };
}

// What fixtures/energy.h reports.
std::vector<Counter> EnergyCounters() {
  return {
      {"energy_J", "J", kLower, Range::kPositive, "energy",
       "with --energy: what one repetition of T uses, repeated back to back with a warm cache; the "
       "sum over the ranks' GPUs, idle power included"},
      {"average_W", "W", kLower, Range::kPositive, "power",
       "with --energy: power while T is repeated, the sum over the ranks' GPUs"},
      {"comp_energy_J", "J", kLower, Range::kPositive, "energy of C", "energy_J of C"},
      {"comp_average_W", "W", kLower, Range::kPositive, "power of C", "average_W of C"},
      {"comm_energy_J", "J", kLower, Range::kPositive, "energy of M", "energy_J of M"},
      {"comm_average_W", "W", kLower, Range::kPositive, "power of M", "average_W of M"},
      {"second_energy_J", "J", kLower, Range::kPositive, "energy of the second",
       "energy_J of the second communication alone"},
      {"second_average_W", "W", kLower, Range::kPositive, "power of the second",
       "average_W of the second communication alone"},
      {"serial_energy_J", "J", kLower, Range::kPositive, "energy one by one",
       "energy_J of the sequential run; without one, of C + M, and of a second communication"},
      {"energy_saved", "", kHigher, Range::kSigned, "energy saved",
       "1 - energy_J / serial_energy_J"},
      {"time_saved", "", kHigher, Range::kSigned, "time saved",
       "the same of the time of these repetitions: 1 - energy_run_ms / that of the sequential run, "
       "or of the sides"},
      {"energy_per_token_J", "J", kLower, Range::kPositive, "energy per token",
       "energy_J / tokens of all ranks, in steps that have tokens"},
      {"energy_time_Js", "J s", kLower, Range::kPositive, "energy x time",
       "energy_J x energy_run_ms"},
      {"energy_run_ms", "ms", kLower, Range::kPositive, "repeated",
       "with --energy: time from one repetition of T to the next; the rank with the longest"},
  };
}

// The counters of rows of any family.
std::vector<Counter> SharedCounters() {
  std::vector<Counter> counters = TimeCounters();
  const std::vector<Counter> others = {
      {"slowest_rank", "count", kNeither, Range::kNotNegative, "slowest rank",
       "with --rank_times_out: the rank with the greatest median work_ms"},
      {"slowest_share", "", kNeither, Range::kNotNegative, "slowest share",
       "share of the samples in which `slowest_rank` was the slowest"},
      {"rank_spread", "", kNeither, Range::kNotNegative, "rank spread",
       "(greatest - smallest) / median of the ranks' work_ms"},
      {"max_rel_err", "", kLower, Range::kNotNegative, "relative error",
       "largest relative error that verification found, on rank 0; 0 where results are compared "
       "exactly"},
      {"comm_sms", "count", kNeither, Range::kNotNegative, "comm SMs",
       "most SMs (NCCL: CTAs) that the communication's kernels use, as found before sampling, "
       "without copies within a GPU; 0: copy engines move the data between GPUs"},
      {"valid", "bool", kHigher, Range::kFlag, "valid",
       "0 when the row does not measure what its name says; `reason` tells why"},
      {"algbw_GBps", "GB/s", kHigher, Range::kNotNegative, "algbw",
       "a collective's size / time, as nccl-tests defines it; in Overlap, while overlapped"},
      {"busbw_GBps", "GB/s", kHigher, Range::kNotNegative, "busbw",
       "algbw x the collective's bus factor, as nccl-tests defines it", true},
      {"GBps", "GB/s", kHigher, Range::kNotNegative, "bandwidth",
       "bytes copied between memories, or read and written within one, / time"},
      {"TFLOPs", "TFLOP/s", kHigher, Range::kNotNegative, "rate",
       "floating-point operations / time"},
      {"m", "count", kNeither, Range::kPositive, "m",
       "rows of the result of the row's largest matrix product, m x k times k x n"},
      {"n", "count", kNeither, Range::kPositive, "n", "columns of that result"},
      {"k", "count", kNeither, Range::kPositive, "k", "terms of each of its sums"},
      {"bound_ms", "ms", kLower, Range::kPositive, "bound",
       "longest path through the schedule, with the steps of each lane or engine as they run there "
       "with nothing beside them"},
      {"pct_of_bound", "%", kHigher, Range::kNotNegative, "of the bound", "100 x bound / T", true},
      {"sequential_ms", "ms", kLower, Range::kPositive, "sequential",
       "the same steps one after the other on one lane"},
      {"speedup", "", kHigher, Range::kPositive, "speedup",
       "sequential / T; in Overlap (C + M) / T"},
  };
  const std::vector<Counter> of_energy = EnergyCounters();
  counters.insert(counters.end(), others.begin(), others.end());
  counters.insert(counters.end(), of_energy.begin(), of_energy.end());
  return counters;
}

const char* Text(Better better) {
  constexpr std::array<const char*, 3> kNames = {"lower", "higher", "neither"};
  return kNames.at(static_cast<std::size_t>(better));
}

const char* Text(Range range) {
  constexpr std::array<const char*, 5> kNames = {"positive", "not_negative", "signed", "at_most_1",
                                                 "flag"};
  return kNames.at(static_cast<std::size_t>(range));
}

std::string JsonOf(const Counter& counter) {
  return fmt::format(
      R"({{"name": "{}", "unit": "{}", "better": "{}", "range": "{}", "judged": {}, )"
      R"("title": "{}", "definition": "{}"}})",
      counter.name, counter.unit, Text(counter.better), Text(counter.range), counter.judged,
      EscapedJson(counter.title), EscapedJson(counter.definition));
}

std::string Quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

std::string JsonOf(const WorkloadText& workload) {
  return fmt::format(R"({{"name": "{}", "axes": [{}]}})", workload.name, Quoted(workload.axes));
}

std::string JsonOf(const FamilyText& family) {
  return fmt::format(R"({{"name": "{}", "about": "{}", "lead": [{}]}})", family.name,
                     EscapedJson(family.about), Quoted(family.lead));
}

template <class Item>
std::string JsonList(const char* name, const std::vector<Item>& items) {
  std::string text = fmt::format("  \"{}\": [\n", name);
  for (std::size_t i = 0; i < items.size(); ++i)
    text += "    " + JsonOf(items[i]) + (i + 1 < items.size() ? ",\n" : "\n");
  return text + "  ],\n";
}

}  // namespace

CounterTable::CounterTable() : counters_(SharedCounters()) {}

std::vector<Counter> TraceCounters() {
  constexpr auto kShare = Range::kNotNegative;
  return {
      {"breakdown_valid", "bool", kHigher, Range::kFlag, "breakdown valid",
       "with --trace_out: 0 when the trace has a fault; then there are no shares, and `reason` "
       "tells why"},
      {"traced_ms", "ms", kLower, Range::kPositive, "traced",
       "mean time of the traced samples by their records, the maximum over the ranks; the shares "
       "are of the rank whose samples took longest"},
      {"traced_events_ms", "ms", kLower, Range::kPositive, "by events",
       "mean time of the traced samples by their events, the maximum over the ranks; traced_ms "
       "should agree with it"},
      {"untraced_events_ms", "ms", kLower, Range::kPositive, "untraced",
       "mean time by events of as many untraced samples, taken just before in the same way"},
      {"trace_cost_pct", "%", kLower, Range::kSigned, "trace costs",
       "how much longer a traced sample took by its events than an untraced one: the median over "
       "the pairs"},
      {"only_comp_pct", "%", kNeither, kShare, "only COMP",
       "share in which computation ran, and nothing else"},
      {"only_comm_pct", "%", kLower, kShare, "only COMM",
       "share in which communication ran, and nothing else: it is exposed"},
      {"only_mem_pct", "%", kLower, kShare, "only MEM",
       "share in which copies ran, and nothing else"},
      {"comp_comm_pct", "%", kHigher, kShare, "COMP and COMM",
       "share in which computation and communication ran, and no copies"},
      {"comp_mem_pct", "%", kHigher, kShare, "COMP and MEM",
       "share in which computation and copies ran, and no communication"},
      {"comm_mem_pct", "%", kNeither, kShare, "COMM and MEM",
       "share in which communication and copies ran, and no computation"},
      {"comp_comm_mem_pct", "%", kHigher, kShare, "all three",
       "share in which computation, communication and copies ran"},
      {"idle_pct", "%", kLower, kShare, "idle", "share in which nothing ran"},
      {"idle_ranks_pct", "%", kLower, kShare, "idle: ranks",
       "share in which nothing ran because another rank had yet to begin the sample, or the next "
       "copy of a communication waited for the other ranks"},
      {"idle_gate_pct", "%", kLower, kShare, "idle: gate",
       "share in which nothing ran because the next work was held back for the lane that leads, or "
       "was the first to come through its gate"},
      {"idle_host_pct", "%", kLower, kShare, "idle: host",
       "share in which nothing ran because the host had yet to enqueue the next work"},
      {"idle_dependency_pct", "%", kLower, kShare, "idle: dependency",
       "share in which nothing ran, and the next work waited for a step of another lane or rank"},
      {"idle_other_pct", "%", kLower, kShare, "idle: other",
       "share in which nothing ran for another cause: while a kernel is launched behind another "
       "one of its lane"},
      {"overlap_pct", "%", kHigher, kShare, "overlap",
       "100 x time in which computation and communication ran / time in which communication ran"},
      {"overlap_by_name_pct", "%", kNeither, kShare, "overlap by name",
       "overlap_pct as nsys and HTA would see it: they count kernels with nccl in their names, and "
       "no others, as communication; 0 where they see none"},
  };
}

void CounterTable::Add(const std::vector<Counter>& counters) {
  for (const Counter& counter : counters) Add(counter);
}

void CounterTable::Add(const Counter& counter) {
  if (Find(counter.name) != nullptr)
    throw Error(fmt::format("the counter '{}' is defined twice", counter.name));
  counters_.push_back(counter);
}

void CounterTable::Add(FamilyText family) { families_.push_back(std::move(family)); }

void CounterTable::Add(WorkloadText workload) { workloads_.push_back(std::move(workload)); }

const Counter* CounterTable::Find(std::string_view name) const {
  const auto found = std::ranges::find(counters_, name, &Counter::name);
  return found == counters_.end() ? nullptr : &*found;
}

// A family's name may begin with another one's: the longest that matches is the row's.
const FamilyText* CounterTable::FamilyOf(std::string_view row_name) const {
  const FamilyText* found = nullptr;
  for (const FamilyText& family : families_) {
    const bool fits = row_name == family.name || row_name.starts_with(family.name + "/");
    if (fits && (found == nullptr || family.name.size() > found->name.size())) found = &family;
  }
  return found;
}

std::string JsonMembers(const CounterTable& table) {
  const std::string workloads =
      table.workloads().empty() ? "" : JsonList("workloads", table.workloads());
  return JsonList("counters", table.counters()) + JsonList("families", table.families()) +
         workloads;
}

std::string MarkdownTables(const CounterTable& table) {
  std::string text = "| Counter | Unit | Better | Definition |\n|---|---|---|---|\n";
  for (const Counter& counter : table.counters()) {
    text += fmt::format(
        "| `{}` | {} | {} | {} |\n", counter.name, counter.unit.empty() ? "1" : counter.unit,
        counter.better == Better::kNeither ? "—" : Text(counter.better), counter.definition);
  }
  return text;
}

std::string CounterHelp(const CounterTable& table) {
  std::string text;
  for (const Counter& counter : table.counters()) {
    text += fmt::format("  {:<25} {:<8} {}\n", counter.name,
                        counter.unit.empty() ? "ratio" : counter.unit, counter.definition);
  }
  return text;
}

}  // namespace overlapbench
