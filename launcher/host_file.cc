#include "launcher/host_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>

#include "device/error.h"
#include "device/text.h"

namespace overlapbench {
namespace {

[[noreturn]] void Refuse(const std::string& name, int number, const std::string& what) {
  throw UsageError(fmt::format("--hostfile: {}, line {}: {}", name, number, what));
}

// std::regex needs stack for every character.
bool IsText(const std::string& line) {
  constexpr std::size_t kMostBytes = 4096;
  const auto is_control = [](unsigned char c) { return c != '\t' && std::iscntrl(c) != 0; };
  return line.size() <= kMostBytes && std::ranges::none_of(line, is_control);
}

long ReadSlots(const std::string& value, const std::string& name, int number) {
  const auto slots = WholeNumber(value);
  if (slots && *slots >= 1 && *slots <= kMostRanks) return *slots;
  Refuse(name, number,
         fmt::format("slots takes a whole number from 1 to {}, got '{}'", kMostRanks, value));
}

// The other words of a line, such as max_slots=8, are left to mpirun.
Host ReadHost(const std::string& line, const std::string& name, int number) {
  std::istringstream words(std::regex_replace(line, std::regex(R"(\s*=\s*)"), "="));
  Host host;
  words >> host.name;
  if (host.name.find_first_of(":=,") != std::string::npos)
    Refuse(name, number, fmt::format("'{}' is no host name; write 'node1 slots=8'", host.name));
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals);
    std::string lower = key;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (lower != "slots" && lower != "slot") continue;
    if (key != lower || equals == std::string::npos)
      Refuse(name, number, fmt::format("'{}' is not understood; write slots=8", word));
    host.slots = ReadSlots(word.substr(equals + 1), name, number);
  }
  return host;
}

}  // namespace

std::vector<Host> ReadHosts(const std::string& text, const std::string& name) {
  std::vector<Host> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r'))
      Refuse(name, number,
             fmt::format("it ends as on Windows, which mpirun does not read; "
                         "convert the file with: sed -i 's/\\r$//' {}",
                         name));
    if (!IsText(line)) Refuse(name, number, "this is no line of text; write 'node1 slots=8'");
    line.erase(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const Host host = ReadHost(line, name, number);
    // Without slots, each line is one more slot.
    const auto first = std::ranges::find(hosts, host.name, &Host::name);
    if (first != hosts.end() && (first->slots > 0 || host.slots > 0))
      Refuse(name, number,
             fmt::format("{} is there twice; write one line for each machine, with all its slots",
                         host.name));
    hosts.push_back(host);
  }
  if (hosts.empty())
    throw UsageError(
        fmt::format("--hostfile: {} has no machine; write lines such as 'node1 slots=8'", name));
  return hosts;
}

std::string NameHosts(const std::vector<Host>& hosts) {
  std::string names;
  for (const Host& host : hosts) {
    names += (names.empty() ? "" : ", ") + host.name;
    if (host.slots > 0) names += fmt::format(" ({})", host.slots);
  }
  return names;
}

long CountSlots(const std::vector<Host>& hosts) {
  long slots = 0;
  for (const Host& host : hosts) {
    if (host.slots == 0) return 0;
    slots += host.slots;
  }
  return slots;
}

}  // namespace overlapbench
