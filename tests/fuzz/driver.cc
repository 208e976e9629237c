// Stands in for libFuzzer if the compiler has none: it changes files of a corpus at random and
// feeds them to LLVMFuzzerTestOneInput. It is not guided by coverage.
//
//   axis_fuzz [-seed=N] [-runs=N] [-max_total_time=SECONDS] CORPUS_DIRECTORY...
//
// The flags are libFuzzer's. A seed and a number of runs always give the same inputs, on any
// machine; an input that kills the program is shown.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)());  // NOLINT: the runtime's name

namespace {

struct Plan {
  long seed = 1;
  long runs = 100000;
  long max_total_time = 3600;
  std::vector<std::string> corpus;
};

std::string& Current() {
  static std::string input;
  return input;
}

void ShowCurrent() {
  std::ostringstream text;
  for (const char c : Current()) {
    if (c >= ' ' && c <= '~') {
      text << c;
    } else {
      text << "\\x" << std::hex << static_cast<int>(static_cast<unsigned char>(c)) << std::dec;
    }
  }
  std::cerr << "axis_fuzz: the input was: " << text.str() << "\n";
}

Plan ReadPlan(const std::vector<std::string_view>& arguments) {
  Plan plan;
  const std::vector<std::pair<std::string_view, long*>> numbers = {
      {"-seed=", &plan.seed}, {"-runs=", &plan.runs}, {"-max_total_time=", &plan.max_total_time}};
  for (const auto argument : arguments) {
    const auto flag = std::ranges::find_if(
        numbers, [&](const auto& number) { return argument.starts_with(number.first); });
    if (flag == numbers.end()) {
      for (const auto& file : std::filesystem::directory_iterator(argument)) {
        std::ifstream stream(file.path(), std::ios::binary);
        plan.corpus.emplace_back(std::istreambuf_iterator<char>(stream),
                                 std::istreambuf_iterator<char>());
      }
      continue;
    }
    const auto value = argument.substr(flag->first.size());
    const auto [end, code] =
        std::from_chars(value.data(), value.data() + value.size(), *flag->second);
    if (code != std::errc() || end != value.data() + value.size()) {
      std::cerr << "axis_fuzz: not a number: " << argument << "\n";
      std::exit(2);
    }
  }
  // The order of a directory's entries is not the same everywhere.
  std::ranges::sort(plan.corpus);
  return plan;
}

class Mutator {
 public:
  explicit Mutator(const Plan& plan) : corpus_(plan.corpus), random_(plan.seed) {}

  // One to eight changes to a file of the corpus.
  std::string Next() {
    std::string input = corpus_.at(Below(corpus_.size()));
    for (std::size_t changes = 1 + Below(8); changes > 0; --changes) Change(input);
    return input;
  }

 private:
  // Not std::uniform_int_distribution, which differs between libraries.
  std::size_t Below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void Change(std::string& input) {
    static constexpr std::string_view kTelling[] = {"=",
                                                    ",",
                                                    ":",
                                                    "x",
                                                    "\n",
                                                    "-",
                                                    "--axis=",
                                                    "0",
                                                    "9223372036854775807",
                                                    "1T",
                                                    std::string_view("\0", 1)};
    const std::size_t place = Below(input.size() + 1);
    switch (Below(6)) {
      case 0:
        if (!input.empty()) input[place % input.size()] = static_cast<char>(random_());
        return;
      case 1:
        input.erase(place, 1 + Below(4));
        return;
      case 2:
        input.insert(place, kTelling[Below(std::size(kTelling))]);
        return;
      case 3:
        input.resize(place);
        return;
      case 4:
        input.insert(place, input.substr(Below(input.size() + 1), 1 + Below(16)));
        return;
      default: {
        const std::string& other = corpus_.at(Below(corpus_.size()));
        input = input.substr(0, place) + other.substr(Below(other.size() + 1));
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  const Plan plan = ReadPlan({argv + 1, argv + argc});
  if (plan.corpus.empty()) {
    std::cerr << "axis_fuzz: no corpus: name a directory that has files\n";
    return 2;
  }
  __sanitizer_set_death_callback(ShowCurrent);
  std::signal(SIGABRT, [](int) { ShowCurrent(); });  // on the way out: what it does is no matter
  Mutator mutator(plan);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(plan.max_total_time);
  long run = 0;
  for (; run < plan.runs && std::chrono::steady_clock::now() < end; ++run) {
    Current() = std::cmp_less(run, plan.corpus.size()) ? plan.corpus[run] : mutator.Next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(Current().data()),
                           Current().size());
  }
  std::cout << "axis_fuzz: " << run << " runs, seed " << plan.seed << "\n";
  return 0;
}
