// overlapbench: the program.
#include "program/program.h"

int main(int argc, char** argv) {
  overlapbench::ProgramHooks none;
  return overlapbench::RunProgram(argc, argv, none);
}
