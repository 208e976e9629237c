#include "benchmarks/plan.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "benchmarks/name_filter.h"
#include "device/text.h"

namespace overlapbench {
namespace {

// Why this combination has no row; "" if it has one. A flush between operations that run back to
// back would be part of the sample.
std::string WhyExcluded(const Scenario& scenario, const Settings& settings) {
  std::string reason = scenario.excluded ? scenario.excluded(settings) : "";
  if (!reason.empty()) return reason;
  const bool streaming = settings.Text("cadence") == "streaming";
  return streaming && settings.Text("cache") == "cold"
             ? "cadence:streaming needs a warm cache (--axis cache=warm)"
             : "";
}

std::vector<Settings> CandidatesOf(const Scenario& scenario, const Settings& settings) {
  return scenario.candidates ? scenario.candidates(settings) : std::vector{settings};
}

std::vector<std::string> DescribeUnavailable(const Plan& plan, const NameFilter& filter) {
  struct Reason {
    std::string text;
    std::string first;            // the first name that it excludes
    std::set<std::string> names;  // all of them
  };
  std::vector<Reason> reasons;
  for (const auto& [name, text] : plan.unavailable()) {
    if (!filter.Matches(name)) continue;
    auto entry = std::ranges::find(reasons, text, &Reason::text);
    if (entry == reasons.end()) entry = reasons.insert(reasons.end(), {text, name, {}});
    entry->names.insert(name);
  }
  std::vector<std::string> lines;
  for (const auto& [text, first, names] : reasons) {
    const std::string more =
        names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : std::string();
    lines.push_back(fmt::format("not available: {}{}: {}", first, more, text));
  }
  return lines;
}

bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The words between the slashes, pluses and colons of names; of a filter, between its operators.
std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (IsOfWord(c))
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  std::erase_if(words, [](const std::string& word) {
    return word.empty() || std::isdigit(static_cast<unsigned char>(word.front())) != 0;
  });
  return words;
}

std::vector<std::string> NamesOf(const Plan& plan) {
  std::vector<std::string> names;
  for (const Benchmark& benchmark : plan.benchmarks()) names.push_back(benchmark.name);
  for (const Plan::Unavailable& one : plan.unavailable()) names.push_back(one.name);
  return names;
}

// "; did you mean AllToAll?" for the first word of the filter that is in no name, else for the
// first that is only a part of a word.
std::string MistypedIn(const std::string& filter, const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const std::string& name : names) {
    for (std::string& word : WordsOf(name)) known.insert(std::move(word));
  }
  const std::vector<std::string> words = WordsOf(filter);
  std::set<std::string> others = known;
  for (const std::string& word : words) others.erase(word);
  const auto meant = [&](const std::string& word) {
    return DidYouMean(word, {others.begin(), others.end()});
  };
  for (const std::string& word : words) {
    const bool is_in_a_name = std::ranges::any_of(
        names, [&](const std::string& name) { return name.find(word) != std::string::npos; });
    if (!is_in_a_name) return meant(word);
  }
  for (const std::string& word : words) {
    if (known.contains(word)) continue;
    if (std::string mistyped = meant(word); !mistyped.empty()) return mistyped;
  }
  return "";
}

// "; no row has grid:17x17, but --axis grid=17x17 measures it" for the first such value of an axis.
std::string UnmeasuredIn(const std::string& filter, const std::vector<std::string>& names) {
  const auto in_a_name = [&names](const std::string& text) {
    const NameFilter one("--benchmark_filter", text);
    return std::ranges::any_of(names, [&](const std::string& name) { return one.Matches(name); });
  };
  for (auto colon = std::ranges::find(filter, ':'); colon != filter.end();
       colon = std::find(colon + 1, filter.end(), ':')) {
    const auto before =
        std::find_if_not(std::make_reverse_iterator(colon), filter.rend(), IsOfWord);
    const std::string axis(before.base(), colon);
    const std::string value(colon + 1, std::find_if_not(colon + 1, filter.end(), IsOfWord));
    if (axis.empty() || value.empty() || !in_a_name(fmt::format("/{}:", axis))) continue;
    if (!in_a_name(fmt::format("/{}:{}", axis, value)))
      return fmt::format("; no row has {0}:{1}, but --axis {0}={1} measures it;", axis, value);
  }
  return "";
}

std::string MeantBy(const std::string& filter, const Plan& plan) {
  const std::vector<std::string> names = NamesOf(plan);
  const std::string mistyped = MistypedIn(filter, names);
  return mistyped.empty() ? UnmeasuredIn(filter, names) : mistyped;
}

}  // namespace

void Plan::Add(Scenario scenario) {
  AppendAxes(scenario.axes, SampleAxes());
  Know(scenario.axes);
  if (!scenario.missing.empty()) {
    unavailable_.push_back({scenario.name, scenario.missing});
    return;
  }
  if (const std::string reason = Replace(scenario.axes); !reason.empty()) {
    unavailable_.push_back({scenario.name, reason});
    return;
  }
  for (const Settings& settings : Combinations(scenario.axes)) AddRow(scenario, settings);
}

void Plan::AddRow(const Scenario& scenario, const Settings& written) {
  std::string name = scenario.name + written.NameSuffix();
  std::vector<Settings> candidates;
  std::string reason;
  try {
    const Settings settings = InUnits(scenario.axes, written);
    name = scenario.name + settings.NameSuffix();
    for (const Settings& one : CandidatesOf(scenario, settings)) {
      const std::string excluded = WhyExcluded(scenario, one);
      if (reason.empty()) reason = excluded;
      if (excluded.empty()) candidates.push_back(one);
    }
  } catch (const UsageError& error) {  // a candidate that does not exist here
    candidates.clear();
    reason = error.what();
  }
  if (candidates.empty()) {
    unavailable_.push_back({name, reason});
    return;
  }
  if (std::ranges::find(benchmarks_, name, &Benchmark::name) != benchmarks_.end()) return;
  const Settings chosen = candidates.front();
  if (candidates.size() == 1) candidates.clear();
  benchmarks_.push_back({name, chosen, scenario.runs, scenario.report, candidates,
                         scenario.plain_run, scenario.prioritizes_comm, scenario.least_groups});
}

std::string Plan::Replace(std::vector<Axis>& axes) {
  for (auto& axis : axes) {
    const auto replaced = std::ranges::find(overrides_, axis.name, &AxisOverride::name);
    if (replaced == overrides_.end()) continue;
    try {
      axis.values = ReadValues(axis, replaced->values);
      axis.unit = 1;
      taken_.insert(axis.name);
    } catch (const UsageError& error) {
      refused_.emplace(axis.name, error.what());
      return error.what();
    }
  }
  return "";
}

void Plan::RequireKnownAxes() const {
  constexpr std::size_t kLong = 300;
  std::set<std::string> known;
  for (const Axis& axis : axes_) known.insert(axis.name);
  for (const auto& one : overrides_) {
    if (known.contains(one.name)) continue;
    const std::string meant = DidYouMean(one.name, {known.begin(), known.end()});
    const std::string list = fmt::format("the axes are {}", fmt::join(known, ", "));
    throw UsageError(fmt::format("there is no axis '{}'{} {}", one.name,
                                 meant.empty() ? ";" : meant,
                                 list.size() > kLong ? "--help axes lists them" : list));
  }
  for (const auto& one : overrides_) {
    const auto refused = refused_.find(one.name);
    if (refused == refused_.end() || taken_.contains(one.name)) continue;
    throw UsageError(refused->second + HintAtNames(one));
  }
}

std::string Plan::HintAtNames(const AxisOverride& one) const {
  const std::string part = one.name + ":" + one.values;
  const bool exists = std::ranges::any_of(benchmarks_, [&](const Benchmark& benchmark) {
    return benchmark.name.find("/" + part + "/") != std::string::npos;
  });
  return exists ? "; it is part of row names: select it with --benchmark_filter=" + part : "";
}

Selection Select(const Plan& plan, const std::string& filter_text) {
  const NameFilter filter("--benchmark_filter", filter_text);
  Selection selection{.benchmarks = {}, .unavailable = DescribeUnavailable(plan, filter)};
  for (const Benchmark& benchmark : plan.benchmarks()) {
    if (filter.Matches(benchmark.name)) selection.benchmarks.push_back(benchmark);
  }
  return selection;
}

std::string ShownUnavailable(const Selection& selection, const Screen& screen) {
  constexpr std::size_t kIndent = 4;
  std::string text;
  for (const std::string& line : selection.unavailable) {
    std::vector<std::string> pieces;
    for (const std::string& word : SplitBehind(line, ' ')) {
      for (std::string& part : SplitBehind(word, '/')) pieces.push_back(std::move(part));
    }
    text += (screen.is_terminal ? Filled(pieces, screen.columns, kIndent) : line) + "\n";
  }
  return text;
}

void RequireSomething(const Plan& plan, const Selection& selection, const std::string& filter) {
  if (!selection.benchmarks.empty()) return;
  const auto& lines = selection.unavailable;
  const std::string meant = lines.empty() ? MeantBy(filter, plan) : "";
  std::string why = (meant.empty() ? "; " : meant + " ") +
                    (lines.empty() ? "--benchmark_list_tests lists the names" : lines.front());
  if (const std::string escaped = WithPlusEscaped(filter); escaped != filter) {
    const Selection literal = Select(plan, escaped);
    if (!literal.benchmarks.empty() || !literal.unavailable.empty())
      why = fmt::format("; its + is an operator; for a literal +, write --benchmark_filter='{}'",
                        ShownFilter(escaped));
  }
  if (filter == ".") throw UsageError(fmt::format("no benchmark can run here{}", why));
  throw UsageError(
      fmt::format("no benchmark matches --benchmark_filter={}{}", ShownFilter(filter), why));
}

}  // namespace overlapbench
