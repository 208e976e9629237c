// Counters: the meaning of every number in a result, in one table.
//
// A counter has a name, a unit, the direction that is better, the range in which its values make
// sense, and a definition. Counters that any family's rows may have are in counters.cc. All others
// are in benchmarks/, in the file that reports them: those that several families share, such as
// PairCounters, and those of a single family. benchmarks/catalog.cc assembles the table.
// It is written into every result file: the console and the tools read it from there, and nothing
// lists counters again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace overlapbench {

enum class Better : std::uint8_t { kLower, kHigher, kNeither };
// Which values make sense.
enum class Range : std::uint8_t { kPositive, kNotNegative, kSigned, kAtMostOne, kFlag };

struct Counter {
  std::string name;
  std::string unit;  // "ms", "GB/s", "%"; "" for a ratio
  Better better = Better::kNeither;
  Range range = Range::kNotNegative;
  std::string title;  // what the console calls it
  std::string definition;
  bool judged = false;  // comparisons judge it, if a row has it
};

// A workload's axes, for charts of pairs.
struct WorkloadText {
  std::string name;
  std::vector<std::string> axes;
};

// What a family shows, for reports and help.
struct FamilyText {
  std::string name;
  std::string about;
  std::vector<std::string> lead;  // the counters that its rows show, the first ones first
};

class CounterTable {
 public:
  // Starts with the counters that any family's rows may have.
  CounterTable();
  // Throws Error if a name is taken: a counter is defined once.
  void Add(const Counter& counter);
  void Add(const std::vector<Counter>& counters);
  void Add(FamilyText family);
  void Add(WorkloadText workload);

  [[nodiscard]] const std::vector<Counter>& counters() const { return counters_; }
  [[nodiscard]] const std::vector<FamilyText>& families() const { return families_; }
  [[nodiscard]] const std::vector<WorkloadText>& workloads() const { return workloads_; }
  // nullptr if there is none.
  [[nodiscard]] const Counter* Find(std::string_view name) const;
  // The family of a row of this name; nullptr if it is unknown.
  [[nodiscard]] const FamilyText* FamilyOf(std::string_view row_name) const;

 private:
  std::vector<Counter> counters_;
  std::vector<FamilyText> families_;
  std::vector<WorkloadText> workloads_;
};

// The counters of traced rows (fixtures/row_trace.h), whatever they measure.
std::vector<Counter> TraceCounters();

// The members "counters", "families" and, if there are any, "workloads" of a result's JSON, each
// followed by a comma.
std::string JsonMembers(const CounterTable& table);
// The table of counters, for --list_counters=markdown.
std::string MarkdownTables(const CounterTable& table);
// One line each, for --help.
std::string CounterHelp(const CounterTable& table);

}  // namespace overlapbench
