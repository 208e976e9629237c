# The tiers of the house (CONTRIBUTING.md): one library each, which links only tiers below it.
#
#   overlapbench_tier(comm USES workload)
#
# compiles the folder comm/ as overlapbench_tier_comm. A tier's include folder contains nothing but
# a link to its own folder, so a source finds only the headers of its tier and of those that its
# tier links, directly or not: any other #include does not compile.
#
# A new file needs no line here. Those in the folder cuda/ of a tier are left out of a build without
# CUDA, those in host/ belong to every build, and .cu files compile for both backends.

# overlapbench_add_headers(TARGET SCOPE FOLDER): lets a target include "FOLDER/...".
function(overlapbench_add_headers target scope folder)
  set(headers ${CMAKE_BINARY_DIR}/tiers/${folder})
  file(MAKE_DIRECTORY ${headers})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${headers}/${folder} SYMBOLIC)
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${headers}>")
  # nvcc loses a quote in an absolute -I. Ninja compiles in the build folder.
  if(CMAKE_BINARY_DIR MATCHES "'")
    target_compile_options(${target} ${scope}
      "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Itiers/${folder}>>")
  endif()
endfunction()

# overlapbench_precompile(TARGET [HEADER...]): parsing these takes half the time of most files.
function(overlapbench_precompile target)
  if(NOT OVERLAPBENCH_PRECOMPILE)
    return()
  endif()
  foreach(header IN ITEMS algorithm array chrono functional map memory optional span string vector
                          fmt/core.h ${ARGN})
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>")
  endforeach()
endfunction()

# overlapbench_tier(NAME [USES TIER...] [LINKS LIBRARY...] [UNTIMED]): LINKS names libraries of
# others. UNTIMED code plans and reports; with -O1 it compiles in three quarters of the time.
function(overlapbench_tier name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "UNTIMED" "" "USES;LINKS")
  set(target overlapbench_tier_${name})
  set(folders ${name} ${name}/host)
  if(overlapbench_with_cuda)
    list(APPEND folders ${name}/cuda)
  endif()
  list(TRANSFORM folders APPEND "/*.c[cu]" OUTPUT_VARIABLE patterns)
  file(GLOB sources RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${patterns})
  list(REMOVE_ITEM sources ${overlapbench_left_out})
  list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/)
  overlapbench_compile_kernels_as_cxx(${sources})
  if(overlapbench_with_cuda AND OVERLAPBENCH_COMBINE)
    set(kernels ${sources})
    list(FILTER kernels INCLUDE REGEX "\\.cu$")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernels})
    overlapbench_combine(sources ${CMAKE_BINARY_DIR}/combined/${name})
  endif()
  add_library(${target} STATIC ${sources})
  overlapbench_add_headers(${target} PUBLIC ${name})
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated)
  add_dependencies(${target} git_revision)
  list(TRANSFORM ARG_USES PREPEND overlapbench_tier_)
  target_link_libraries(${target} PUBLIC ${ARG_USES} ${ARG_LINKS})
  # The program and the libraries are made of the same objects. Hidden symbols are called directly in
  # all of them, and the libraries must export only their C interfaces.
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME tier_${name} POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  set_property(GLOBAL APPEND PROPERTY overlapbench_tiers ${target})
  # Precompiled headers need the options of the code that includes them. The first tier with the same
  # options compiles them.
  set(options timed)
  if(ARG_UNTIMED)
    set(options untimed)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  get_property(first GLOBAL PROPERTY overlapbench_first_${options}_tier)
  if(NOT first)
    set_property(GLOBAL PROPERTY overlapbench_first_${options}_tier ${target})
    overlapbench_precompile(${target})
  elseif(OVERLAPBENCH_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()
