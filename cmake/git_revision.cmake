# Writes OUTPUT with VERSION and the git revision of SOURCE, if they changed. A release archive contains
# the revision in the file REVISION (dev/release.sh). In another tree without a history, the
# environment variable OVERLAPBENCH_REVISION gives it, else it is "unknown".
cmake_minimum_required(VERSION 3.25)
if(EXISTS "${SOURCE}/REVISION")
  file(STRINGS "${SOURCE}/REVISION" revision LIMIT_COUNT 1)
else()
  execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12
                  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT revision)
  set(revision $ENV{OVERLAPBENCH_REVISION})
endif()
if(NOT revision)
  set(revision unknown)
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
"// Made by cmake/git_revision.cmake at every build.
#pragma once

namespace overlapbench {
inline constexpr const char* kVersion = \"@VERSION@\";
inline constexpr const char* kGitRevision = \"@revision@\";
}  // namespace overlapbench
" @ONLY)
