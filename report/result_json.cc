#include "report/result_json.h"

#include <fmt/core.h>

#include <iostream>

#include "device/error.h"
#include "report/row.h"

namespace overlapbench {
namespace {

// Puts `added` in front of the last `place` of `text`.
void InsertBefore(std::string& text, const std::string& place, const std::string& added) {
  const auto at = text.rfind(place);
  if (at == std::string::npos)
    throw Error("Google Benchmark's JSON has changed: there is no '" + place + "' in it");
  text.insert(at, added);
}

}  // namespace

ResultJson::ResultJson(const CounterTable& table) : table_(table) {
  json_.SetOutputStream(&stream_);
  json_.SetErrorStream(&std::cerr);
}

std::string ResultJson::Begin(const benchmark::BenchmarkReporter::Context& context) {
  json_.ReportContext(context);
  std::string text = Take();
  InsertBefore(text, "  \"benchmarks\": [", JsonMembers(table_));
  return text;
}

std::string ResultJson::Row(benchmark::BenchmarkReporter::Run run) {
  const overlapbench::Row row = MakeRow(run);
  const bool is_row = run.run_type == benchmark::BenchmarkReporter::Run::RT_Iteration;
  run.run_name.iterations.clear();
  run.run_name.time_type.clear();
  run.counters.erase(kStateCounter);
  run.report_label.clear();  // repetitions hand it on to their aggregates
  json_.ReportRuns({run});
  std::string text = Take();
  if (is_row) {
    InsertBefore(text, "\n    }",
                 fmt::format(",\n      \"state\": \"{}\",\n      \"reason\": \"{}\"",
                             ToString(row.state), EscapedJson(row.reason)));
  }
  return text;
}

std::string ResultJson::End() {
  json_.Finalize();
  return Take();
}

// JSONReporter has opened what this closes.
std::string ResultJson::Incomplete(const std::string& reason) {
  return fmt::format("\n  ],\n  \"incomplete\": \"{}\"\n}}\n", EscapedJson(reason));
}

// Google Benchmark copies error messages and values of the environment as they are.
std::string ResultJson::Take() {
  std::string text = ValidUtf8(stream_.str());
  for (char& c : text)
    if (c >= '\0' && c < ' ' && c != '\n') c = ' ';
  stream_.str("");
  return text;
}

}  // namespace overlapbench
