# Programs with workloads of their own: the tests' worked examples, and those that link an installed
# suite (docs/adding-a-workload.md, "Out of tree").
#
#   overlapbench_add_bench(bench SOURCES transpose.cu WORKLOADS Transpose)
#
# makes the program `bench`: the suite, with one more workload. Each name under WORKLOADS or FAMILIES
# adds a line WORKLOAD(Transpose) or FAMILY(...) to this target's own copy of kernels/kernels.def or
# benchmarks/scenarios.def, which is found before the original. A suite without CUDA compiles .cu
# files as C++ for the host backend, like its own.
#
# Needs overlapbench_root, the folder of the suite's headers, and overlapbench_with_cuda.

function(overlapbench_add_bench name)
  add_executable(${name})
  overlapbench_extend(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE overlapbench::main)
endfunction()

# overlapbench_extend(TARGET SOURCES FILE... [WORKLOADS FUNCTION...] [FAMILIES FUNCTION...]): the
# sources, and a catalog (benchmarks/catalog.cc) that lists them and replaces the library's.
function(overlapbench_extend target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;WORKLOADS;FAMILIES")
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES OR NOT (ARG_WORKLOADS OR ARG_FAMILIES))
    message(FATAL_ERROR "${target}: write SOURCES FILE... and WORKLOADS FUNCTION... or FAMILIES "
      "FUNCTION...; got '${ARGN}'")
  endif()
  overlapbench_extend_list(${target} kernels/kernels.def WORKLOAD "${ARG_WORKLOADS}")
  overlapbench_extend_list(${target} benchmarks/scenarios.def FAMILY "${ARG_FAMILIES}")
  overlapbench_compile_kernels_as_cxx(${ARG_SOURCES})
  target_sources(${target} PRIVATE ${ARG_SOURCES} ${overlapbench_root}/benchmarks/catalog.cc)
  target_include_directories(${target} BEFORE PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${target}.lists)
  target_link_libraries(${target} PRIVATE overlapbench::suite)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
endfunction()

function(overlapbench_extend_list target list macro functions)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${overlapbench_root}/${list})
  file(READ ${overlapbench_root}/${list} lines)
  foreach(function IN LISTS functions)
    string(APPEND lines "${macro}(${function})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${target}.lists/${list} CONTENT "${lines}" @ONLY)
endfunction()

# Lets a build without CUDA compile .cu files as C++.
function(overlapbench_compile_kernels_as_cxx)
  if(overlapbench_with_cuda)
    return()
  endif()
  foreach(source IN LISTS ARGN)
    if(source MATCHES "\\.cu$")
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
    endif()
  endforeach()
endfunction()
