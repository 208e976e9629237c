# Finds CUDA and NCCL, and chooses the sources and libraries of the backends.
set(overlapbench_with_cuda OFF)
set(overlapbench_with_nccl OFF)
if(NOT OVERLAPBENCH_CUDA STREQUAL "OFF")
  include(cmake/enable_cuda.cmake)
  if(CMAKE_CUDA_COMPILER)
    if(CMAKE_SOURCE_DIR MATCHES "[$`]")
      message(FATAL_ERROR "The path of this checkout contains $ or `, which nvcc hands to a shell: move "
        "it, or set OVERLAPBENCH_CUDA to OFF.  ${CMAKE_SOURCE_DIR}")
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(overlapbench_with_cuda ON)
  elseif(OVERLAPBENCH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "OVERLAPBENCH_CUDA is ON but nvcc was not found: set CUDACXX to it")
  endif()
endif()

if(overlapbench_with_cuda)
  find_package(NCCL 2.19 QUIET)  # the first with ncclMemAlloc
  set(overlapbench_with_nccl ${NCCL_FOUND})
  set(found_nccl "NCCL ${NCCL_VERSION} (${NCCL_LIBRARY})")
  if(NOT NCCL_FOUND AND NCCL_VERSION)
    set(found_nccl "no NCCL: ${NCCL_VERSION} in ${NCCL_INCLUDE_DIR} is older than 2.19; set NCCL_HOME to another")
  elseif(NOT NCCL_FOUND)
    set(found_nccl "no NCCL: set NCCL_HOME to its folder")
  endif()
  message(STATUS "overlapbench: cuda backend with CUDA ${CUDAToolkit_VERSION}, ${found_nccl}")
else()
  message(STATUS "overlapbench: no CUDA toolkit is used: the host backend is built alone")
endif()

# Files that a build leaves out although it compiles their folders: what stands in for a library that it
# has, and what needs one that it lacks.
set(overlapbench_left_out "")
if(overlapbench_with_cuda)
  list(APPEND overlapbench_left_out comm/no_peers.cc kernels/no_cublaslt.cc)
endif()
if(overlapbench_with_nccl)
  list(APPEND overlapbench_left_out comm/no_nccl.cc)
else()
  list(APPEND overlapbench_left_out comm/cuda/nccl_communicator.cc)
endif()

# The runtime is linked statically, and the driver not at all (device/cuda/cuda_check.h), so that the
# program starts where neither is installed. cuBLASLt and NCCL are opened on GPUs only
# (device/dynamic_library.h). They are named here for their folders, which become part of the
# program's RUNPATH; since no symbol of theirs is referenced, --as-needed leaves them out.
function(overlapbench_link_backend target)
  if(NOT overlapbench_with_cuda)
    return()
  endif()
  target_compile_definitions(${target} PUBLIC OVERLAPBENCH_WITH_CUDA)
  target_compile_options(${target} PUBLIC $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  target_include_directories(${target} SYSTEM PUBLIC "$<BUILD_INTERFACE:${CUDAToolkit_INCLUDE_DIRS}>")
  # Some toolkits have CUPTI's headers elsewhere. The library is opened at run time
  # (device/cuda/cupti.h).
  if(CUDAToolkit_CUPTI_INCLUDE_DIR)
    target_include_directories(${target} SYSTEM PUBLIC
      "$<BUILD_INTERFACE:${CUDAToolkit_CUPTI_INCLUDE_DIR}>")
  endif()
  target_link_options(${target} PUBLIC LINKER:--as-needed)
  target_link_libraries(${target} PUBLIC CUDA::cudart_static CUDA::cublasLt)
  if(overlapbench_with_nccl)
    target_link_libraries(${target} PUBLIC NCCL::nccl)
  endif()
endfunction()

# The kernels alone, behind a C interface, for programs that have their own buffers and streams. It is
# linked from the tiers' archives, which give it only the objects that it uses, and from none of the
# libraries that the tiers link.
function(overlapbench_add_kernels_library)
  if(NOT overlapbench_with_cuda)
    return()
  endif()
  add_library(overlapbench_kernels SHARED kernels/library/overlapbench_kernels.cu)
  set(tiers overlapbench_tier_kernels overlapbench_tier_workload overlapbench_tier_device)
  foreach(property INCLUDE_DIRECTORIES COMPILE_OPTIONS)
    set(of_tiers $<TARGET_PROPERTY:overlapbench_tier_kernels,INTERFACE_${property}>)
    set_property(TARGET overlapbench_kernels APPEND PROPERTY ${property} ${of_tiers})
  endforeach()
  add_dependencies(overlapbench_kernels ${tiers})
  # The linker's list also hides the standard library's templates, which visibility does not.
  set(exports ${CMAKE_SOURCE_DIR}/cmake/exports.map)
  set_target_properties(overlapbench_kernels PROPERTIES
    EXPORT_NAME kernels LINK_DEPENDS ${exports}
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_options(overlapbench_kernels PRIVATE
    LINKER:--version-script=${exports} LINKER:--no-undefined)
  list(TRANSFORM tiers REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  target_link_libraries(overlapbench_kernels PRIVATE
    ${archives} CUDA::cudart_static Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
