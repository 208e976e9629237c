# Finds the libraries that every build of the suite links, for its own build and for programs that link
# an installed one. If any is missing, overlapbench_missing says so in one line; else it is empty.

# MPI's own C++ interface, which nothing uses here, would take a third of most files' compile time.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(Threads QUIET)
find_package(MPI QUIET COMPONENTS CXX)
find_package(benchmark QUIET)
# {fmt} as a library, or only its headers if there is no library.
find_package(fmt QUIET)
if(NOT fmt_FOUND)
  find_path(FMT_INCLUDE_DIR fmt/core.h)
  if(FMT_INCLUDE_DIR AND NOT TARGET fmt::fmt)
    add_library(fmt::fmt INTERFACE IMPORTED)
    target_include_directories(fmt::fmt INTERFACE ${FMT_INCLUDE_DIR})
    target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
  endif()
endif()

set(overlapbench_missing "")
# overlapbench_need(TARGET NAME PACKAGE): PACKAGE is the Debian package that provides it.
macro(overlapbench_need target name package)
  if(NOT TARGET ${target})
    string(APPEND overlapbench_missing "${name} was not found: install ${package} (Debian, Ubuntu), or "
      "add its folder to CMAKE_PREFIX_PATH. ")
  endif()
endmacro()
overlapbench_need(Threads::Threads "the threads library" libc6-dev)
overlapbench_need(MPI::MPI_CXX "MPI" libopenmpi-dev)
overlapbench_need(benchmark::benchmark "Google Benchmark" libbenchmark-dev)
overlapbench_need(fmt::fmt "{fmt}" libfmt-dev)
