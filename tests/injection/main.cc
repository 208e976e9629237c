// overlapbench_with_faults: the program of the drills, whose ranks fail on request.
#include "program/program.h"
#include "tests/injection/injected_fault.h"

int main(int argc, char** argv) {
  overlapbench::FaultInjector faults;
  return overlapbench::RunProgram(argc, argv, faults);
}
