// The table of counters: it contains every counter that a family defines, once, and a counter added
// in one place appears everywhere.
#include "report/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "benchmarks/catalog.h"
#include "device/error.h"
#include "json.h"
#include "report/json.h"

namespace overlapbench {
namespace {

Counter Furlongs() {
  return {"furlongs",
          "GB/s",
          Better::kHigher,
          Range::kNotNegative,
          "furlong rate",
          "what it says of \"furlongs\"",
          true};
}

TEST(CounterTable, HasTheCountersOfAllFamilies) {
  const CounterTable table = AllCounters();
  for (const char* name : {"time", "p05_ms", "GBps", "slowdown", "gain", "duplex_bound_ms",
                           "bound_by_workers", "whole_ms", "pct_of_peak", "graph_speedup"})
    EXPECT_NE(table.Find(name), nullptr) << name;
  EXPECT_EQ(table.Find("nothing"), nullptr);
}

// Comparisons judge them in rows of any family.
TEST(CounterTable, JudgesFewCountersOfAnyFamily) {
  const CounterTable table;
  std::set<std::string> judged;
  for (const Counter& counter : table.counters())
    if (counter.judged) judged.insert(counter.name);
  EXPECT_EQ(judged, (std::set<std::string>{"time", "busbw_GBps", "pct_of_bound"}));
}

// Counters that only some families report are defined in benchmarks/.
TEST(CounterTable, BeginsWithTheCountersOfRowsOfAnyFamily) {
  const CounterTable any;
  for (const char* name : {"time", "p05_ms", "GBps", "bound_ms", "valid"})
    EXPECT_NE(any.Find(name), nullptr) << name;
  for (const char* name : {"slowdown", "pct_of_copy", "batches_per_s", "tokens_per_s", "knee_sms"})
    EXPECT_EQ(any.Find(name), nullptr) << name;
  const CounterTable all = AllCounters();
  for (std::size_t i = 0; i < any.counters().size(); ++i)
    EXPECT_EQ(all.counters()[i].name, any.counters()[i].name);
}

TEST(CounterTable, HasEveryCounterOnce) {
  const CounterTable table = AllCounters();
  std::set<std::string> names;
  for (const Counter& counter : table.counters())
    EXPECT_TRUE(names.insert(counter.name).second) << counter.name;
}

TEST(CounterTable, RefusesADuplicateCounter) {
  CounterTable table;
  table.Add(Furlongs());
  EXPECT_THROW(table.Add(Furlongs()), Error);
  Counter shared = Furlongs();
  shared.name = "GBps";
  EXPECT_THROW(table.Add(shared), Error);
}

// Each unit is one of these, or "" for a ratio, and the name ends with the unit.
TEST(CounterTable, HasTheUnitTitleAndDefinitionOfEveryCounter) {
  const std::set<std::string> units = {"",  "ms",   "us", "GB/s", "TFLOP/s", "count", "1/s",
                                       "%", "bool", "B",  "J",    "W",       "J s"};
  const struct {
    const char* ending;
    const char* unit;
  } endings[] = {{"_bytes", "B"},  {"_ms", "ms"},           {"_us", "us"},
                 {"GBps", "GB/s"}, {"TFLOPs", "TFLOP/s"},   {"_per_s", "1/s"},
                 {"_pct", "%"},    {"us_per_launch", "us"}, {"us_per_fragment", "us"}};
  const CounterTable table = AllCounters();
  for (const Counter& counter : table.counters()) {
    EXPECT_TRUE(std::regex_match(counter.name, std::regex("[A-Za-z][A-Za-z0-9_]*")))
        << counter.name;
    EXPECT_TRUE(units.contains(counter.unit)) << counter.name << ": " << counter.unit;
    EXPECT_FALSE(counter.title.empty()) << counter.name;
    EXPECT_FALSE(counter.definition.empty()) << counter.name;
    EXPECT_EQ(counter.definition.find('\n'), std::string::npos) << counter.name;
    EXPECT_EQ(counter.definition.find('|'), std::string::npos) << counter.name << ": no table cell";
    for (const auto& [ending, unit] : endings) {
      if (!counter.name.ends_with(ending)) continue;
      EXPECT_EQ(counter.unit, unit) << counter.name;
    }
    EXPECT_EQ(counter.range == Range::kFlag, counter.unit == "bool") << counter.name;
    if (!counter.judged) continue;
    EXPECT_NE(counter.better, Better::kNeither) << counter.name << " is judged by what?";
  }
}

std::set<std::string> Words(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// Gates and comparisons go by it. Rates are better if higher, and all that is not listed is better
// if lower.
TEST(CounterTable, HasTheDirectionOfEveryCounter) {
  const std::set<std::string> rates = {"GB/s", "TFLOP/s", "1/s"};
  const std::set<std::string> higher = Words(
      "valid pct_of_bound speedup energy_saved time_saved efficiency hidden_comm pct_of_copy "
      "fused_speedup predicted_speedup identical estimate_efficiency estimate_speedup "
      "breakdown_valid comp_comm_pct comp_mem_pct comp_comm_mem_pct overlap_pct pct_of_peak gain "
      "graph_speedup epilogue_speedup graph_gain batch_speedup");
  const std::set<std::string> neither = Words(
      "samples slowest_rank slowest_share rank_spread comm_sms m n k coverage product_slowdown "
      "product_error comp_sms_used bound_by_workers estimate_error_pct only_comp_pct comm_mem_pct "
      "overlap_by_name_pct prediction_error_pct kernel_us chunks direct straggler_rank "
      "straggler_load padding_pct by_sm by_hbm by_l2 by_clock by_lead residual");
  const CounterTable table = AllCounters();
  for (const Counter& counter : table.counters()) {
    const bool is_higher = rates.contains(counter.unit) || higher.contains(counter.name);
    const Better better = is_higher                        ? Better::kHigher
                          : neither.contains(counter.name) ? Better::kNeither
                                                           : Better::kLower;
    EXPECT_EQ(counter.better, better) << counter.name;
  }
}

TEST(CounterTable, HasEveryFamilyOnceWithItsLeadCounters) {
  const CounterTable table = AllCounters();
  std::set<std::string> names;
  for (const FamilyText& family : table.families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_TRUE(family.about.ends_with('.')) << family.name;
    EXPECT_FALSE(family.lead.empty()) << family.name;
    for (const std::string& counter : family.lead)
      EXPECT_NE(table.Find(counter), nullptr) << family.name << " shows " << counter;
  }
  EXPECT_EQ(names.size(), AllFamilies().size());
}

TEST(CounterTable, FindsTheLeadCountersOfARowByItsFamily) {
  CounterTable table;
  table.Add(FamilyText{"Race", "Horses.", {"furlongs", "GBps"}});
  EXPECT_EQ(table.FamilyOf("Race/Horse/laps:2")->lead,
            (std::vector<std::string>{"furlongs", "GBps"}));
  EXPECT_EQ(table.FamilyOf("Race")->lead, (std::vector<std::string>{"furlongs", "GBps"}));
  EXPECT_EQ(table.FamilyOf("Races/Horse"), nullptr);
}

TEST(CounterTable, ChoosesTheLongestMatchingFamily) {
  CounterTable table;
  table.Add(FamilyText{"Race", "Horses.", {"furlongs"}});
  table.Add(FamilyText{"Race/Relay", "Teams of horses.", {"GBps"}});
  table.Add(FamilyText{"Lab/Link", "Bandwidth against SMs.", {"cv"}});
  EXPECT_EQ(table.FamilyOf("Race/Relay/Horse/laps:2")->lead, (std::vector<std::string>{"GBps"}));
  EXPECT_EQ(table.FamilyOf("Race/Relays/laps:2")->lead, (std::vector<std::string>{"furlongs"}));
  EXPECT_EQ(table.FamilyOf("Lab/Link/Broadcast/bytes:1")->lead, (std::vector<std::string>{"cv"}));
  EXPECT_EQ(table.FamilyOf("Lab/Broadcast/bytes:1"), nullptr);
}

Json ReadMembers(const CounterTable& table) {
  return JsonReader::Read("{\n" + JsonMembers(table) + "  \"end\": true\n}\n");
}

TEST(CounterTable, IsJsonMembersOfTheWholeTable) {
  const CounterTable table = AllCounters();
  const Json members = ReadMembers(table);
  const auto& counters = members.At("counters").items;
  ASSERT_EQ(counters.size(), table.counters().size());
  const std::set<std::string> better = {"lower", "higher", "neither"};
  const std::set<std::string> ranges = {"positive", "not_negative", "signed", "at_most_1", "flag"};
  for (std::size_t i = 0; i < counters.size(); ++i) {
    EXPECT_EQ(counters[i].At("name").text, table.counters()[i].name);
    EXPECT_EQ(counters[i].At("unit").text, table.counters()[i].unit);
    EXPECT_TRUE(better.contains(counters[i].At("better").text));
    EXPECT_TRUE(ranges.contains(counters[i].At("range").text));
    EXPECT_EQ(counters[i].At("judged").kind, Json::Kind::kTruth);
    EXPECT_EQ(counters[i].At("title").text, table.counters()[i].title);
    EXPECT_EQ(counters[i].At("definition").text, table.counters()[i].definition);
  }
  const auto& families = members.At("families").items;
  ASSERT_EQ(families.size(), table.families().size());
  for (std::size_t i = 0; i < families.size(); ++i) {
    EXPECT_EQ(families[i].At("name").text, table.families()[i].name);
    EXPECT_EQ(families[i].At("about").text, table.families()[i].about);
    EXPECT_EQ(families[i].At("lead").items.size(), table.families()[i].lead.size());
  }
}

TEST(CounterTable, WritesTheAxesOfKnownWorkloads) {
  CounterTable table;
  EXPECT_FALSE(ReadMembers(table).Has("workloads"));
  table.Add(WorkloadText{"Gemm", {"n", "grid"}});
  table.Add(WorkloadText{"RoundTrip", {}});
  const Json members = ReadMembers(table);
  const auto& workloads = members.At("workloads").items;
  ASSERT_EQ(workloads.size(), 2U);
  EXPECT_EQ(workloads[0].At("name").text, "Gemm");
  ASSERT_EQ(workloads[0].At("axes").items.size(), 2U);
  EXPECT_EQ(workloads[0].At("axes").items[1].text, "grid");
  EXPECT_TRUE(workloads[1].At("axes").items.empty());
}

TEST(CounterTable, WritesDirectionAndRangeAsTheToolsReadThem) {
  CounterTable table;
  int index = 0;
  const auto add = [&](Better better, Range range) {
    Counter counter = Furlongs();
    counter.name += std::to_string(index++);
    counter.better = better;
    counter.range = range;
    table.Add(counter);
    const Json members = ReadMembers(table);
    const Json& last = members.At("counters").items.back();
    return last.At("better").text + " " + last.At("range").text;
  };
  EXPECT_EQ(add(Better::kLower, Range::kPositive), "lower positive");
  EXPECT_EQ(add(Better::kHigher, Range::kNotNegative), "higher not_negative");
  EXPECT_EQ(add(Better::kNeither, Range::kSigned), "neither signed");
  EXPECT_EQ(add(Better::kLower, Range::kAtMostOne), "lower at_most_1");
  EXPECT_EQ(add(Better::kLower, Range::kFlag), "lower flag");
}

// It is added in one place. run_reporter_test checks the console's row.
TEST(CounterTable, ShowsACounterThatIsAddedToItEverywhere) {
  CounterTable table;
  const auto lines_with = [](const std::string& text) {
    const auto begin = text.find("furlongs");
    if (begin == std::string::npos) return std::string();
    const auto line = text.rfind('\n', begin) + 1;
    return text.substr(line, text.find('\n', begin) - line);
  };
  EXPECT_EQ(lines_with(CounterHelp(table) + MarkdownTables(table) + JsonMembers(table)), "");
  table.Add(Furlongs());
  EXPECT_EQ(lines_with(CounterHelp(table)),
            "  furlongs                  GB/s     what it says of \"furlongs\"");
  EXPECT_EQ(lines_with(MarkdownTables(table)),
            "| `furlongs` | GB/s | higher | what it says of \"furlongs\" |");
  const Json members = ReadMembers(table);
  const Json& written = members.At("counters").items.back();
  EXPECT_EQ(written.At("name").text, "furlongs");
  EXPECT_EQ(written.At("definition").text, "what it says of \"furlongs\"");
  EXPECT_EQ(written.At("judged").number, 1);
}

TEST(CounterTable, MarksRatiosAndCountersWithoutADirection) {
  CounterTable table;
  Counter ratio = Furlongs();
  ratio.unit = "";
  ratio.better = Better::kNeither;
  table.Add(ratio);
  EXPECT_NE(MarkdownTables(table).find("| `furlongs` | 1 | — | "), std::string::npos);
  EXPECT_NE(CounterHelp(table).find("  furlongs                  ratio    "), std::string::npos);
}

TEST(EscapedJson, IsReadBackUnchanged) {
  for (const std::string text : {R"(a "quoted" \ path)", "plain", "über 10 µs", ""}) {
    const Json document = JsonReader::Read("[\"" + EscapedJson(text) + "\"]");
    EXPECT_EQ(document.items.at(0).text, text);
  }
  EXPECT_EQ(EscapedJson("two\nlines\t"), "two lines ");
}

TEST(EscapedJson, HasNoControlCharacters) {
  EXPECT_EQ(EscapedJson(std::string_view("a\x1f z\0", 5)), "a  z ");
}

TEST(EscapedJson, LeavesAllOfUtf8) {
  // The first and the last character of each length, and those beside the surrogates.
  for (const std::string text :
       {"\x7f", "\u0080", "é", "\u07ff", "\u0800", "€", "\ud7ff", "\ue000", "\uffff", "\U00010000",
        "\U0001f600", "\U0010ffff", "\ufffd", "ein é, zwei €"}) {
    EXPECT_EQ(EscapedJson(text), text);
  }
  EXPECT_EQ(EscapedJson(std::string(1, '\0')), " ");
}

TEST(EscapedJson, ReplacesWhatIsNoUtf8) {
  struct Case {
    std::string text;
    std::string escaped;
  };
  // As Python decodes them with errors="replace".
  const std::vector<Case> cases = {
      {"\xff", "\ufffd"},
      {"a\xff\xfez", "a\ufffd\ufffdz"},
      {"caf\xc3", "caf\ufffd"},             // a cut é
      {"\xc3\"", "\ufffd\\\""},             // what follows is still escaped
      {"\xe2\x82", "\ufffd"},               // two of three bytes
      {"\xe2\x82\xe2\x82\xac", "\ufffd€"},  // and a whole one behind
      {"\xf0\x9f\x98z", "\ufffdz"},         // three of four
      {"\xa9", "\ufffd"},                   // one that follows nothing
      {"a\xa9", "a\ufffd"},                 // or a whole character
      {"\xc3\xa9\xa9", "é\ufffd"},
      {"\xe2\x82\xc0", "\ufffd\ufffd"},
      {"\xc0\xaf", "\ufffd\ufffd"},                      // overlong: a slash in two bytes
      {"\xc1\xbf", "\ufffd\ufffd"},                      // overlong
      {"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"},            // overlong
      {"\xf0\x8f\xbf\xbf", "\ufffd\ufffd\ufffd\ufffd"},  // overlong
      {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},            // a surrogate
      {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},  // beyond U+10FFFF
      {"\xf5\x80\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
  };
  for (const Case& one : cases) EXPECT_EQ(EscapedJson(one.text), one.escaped);
  EXPECT_EQ(EscapedJson(std::string_view("\xc3\xa9", 1)), "\ufffd") << "the text ends before";
}

// Kernel names are cut at a byte (device/cuda/cupti_watch.cc).
TEST(EscapedJson, MakesACutNameReadable) {
  const std::string name = std::string(299, 'x') + "é";
  const Json document = JsonReader::Read("[\"" + EscapedJson(name.substr(0, 300)) + "\"]");
  EXPECT_EQ(document.items.at(0).text, std::string(299, 'x') + "\ufffd");
}

}  // namespace
}  // namespace overlapbench
