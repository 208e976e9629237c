// SelfTest: measures known delays before anything else is measured.
//
// Two delays of known lengths run beside each other: on two streams they must take as long as the
// longer one, on one stream as long as both. A wrong pair gets two more attempts, since the
// disturbance may have been brief. If it stays wrong, because something else uses the cores or the
// GPU, no figure from this machine can be trusted.
//
// It also measures once a run how long a step takes to follow another, on the same stream and on
// another one (Launch/HandOver).
#pragma once

#include <string>
#include <vector>

#include "benchmarks/catalog.h"
#include "fixtures/timed_fixture.h"

namespace overlapbench {

struct SelfTest {
  bool passed = true;
  // For the result's context: "passed: slowdown 1.00 of 1.00, 1.50 of 1.50", and "1.21 us on the
  // same stream, 4.02 us on another"; the latter is "" if unknown.
  std::string text;
  std::string handover = {};
};

// The rows of two delays and of hand-overs, whatever axes the user chose. The catalog must outlive
// them.
std::vector<Benchmark> KnownBenchmarks(const Catalog& catalog);

// Called by all ranks together, who get the same verdict. Takes about a second if nothing is wrong.
// Without known rows the test is left out. Ranks that share a GPU fail it unmeasured. After a
// FatalError the session is left in the suite, since nothing may be destroyed then (session.h).
SelfTest RunSelfTest(Suite& suite, const std::vector<Benchmark>& known);

}  // namespace overlapbench
