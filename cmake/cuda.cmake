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

function(overlapbench_choose_backend_sources list)
  set(sources ${${list}})
  if(overlapbench_with_cuda)
    file(GLOB cuda_sources CONFIGURE_DEPENDS
      device/cuda/*.cc device/cuda/*.cu comm/cuda/*.cc comm/cuda/*.cu kernels/cuda/*.cu)
    list(APPEND sources ${cuda_sources})
    list(FILTER sources EXCLUDE REGEX "comm/no_peers\\.cc$|kernels/no_cublaslt\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "kernels/cublaslt.*\\.cc$|comm/peer_copy\\.cc$")
    overlapbench_compile_kernels_as_cxx(${sources})
  endif()
  if(overlapbench_with_nccl)
    list(FILTER sources EXCLUDE REGEX "comm/no_nccl\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "comm/nccl_communicator\\.cc$")
  endif()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()

# overlapbench_combine_kernels(LIST): replaces the .cu files in LIST by files that include five of them
# each. Their common headers take half of their compile time, since nvcc reads them five times per file.
# Names in the anonymous namespaces of such files must differ. Touching one recompiles its neighbours
# too, so only the preset release turns OVERLAPBENCH_COMBINE on.
function(overlapbench_combine_kernels list)
  if(NOT overlapbench_with_cuda OR NOT OVERLAPBENCH_COMBINE)
    return()
  endif()
  set(kernels ${${list}})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  list(REMOVE_ITEM ${list} ${kernels})
  list(LENGTH kernels count)
  math(EXPR last "${count} - 1")
  foreach(first RANGE 0 ${last} 5)
    list(SUBLIST kernels ${first} 5 part)
    list(TRANSFORM part REPLACE "(.+)" "#include \"\\1\"")
    list(JOIN part "\n" includes)
    set(file ${CMAKE_BINARY_DIR}/combined/kernels_from_${first}.cu)
    file(CONFIGURE OUTPUT ${file} CONTENT "${includes}\n" @ONLY)
    list(APPEND ${list} ${file})
  endforeach()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# The runtime is linked statically, and the driver not at all (device/cuda/cuda_check.h), so that the
# program starts where neither is installed. cuBLASLt and NCCL are opened on GPUs only
# (device/dynamic_library.h). They are named here for their folders, which become part of the
# program's RUNPATH; since no symbol of theirs is referenced, --as-needed leaves them out.
function(overlapbench_link_backend target)
  if(NOT overlapbench_with_cuda)
    return()
  endif()
  target_compile_definitions(${target} PUBLIC OVERLAPBENCH_WITH_CUDA)
  overlapbench_set_cuda_options(${target} PUBLIC)
  target_link_options(${target} PUBLIC LINKER:--as-needed)
  target_link_libraries(${target} PUBLIC CUDA::cudart_static CUDA::cublasLt)
  if(overlapbench_with_nccl)
    target_link_libraries(${target} PUBLIC NCCL::nccl)
  endif()
endfunction()

# The fused kernels' objects, compiled once for the program and for the library below. Replaces their
# sources in `list`. Their symbols are hidden, because the library must export only its C interface.
function(overlapbench_share_kernels list)
  if(NOT overlapbench_with_cuda)
    return()
  endif()
  set(shared ${${list}})
  list(FILTER shared INCLUDE REGEX
    "kernels/cuda/.*\\.cu$|kernels/softmax_(cut|regimes)\\.cc$|workload/element\\.cc$")
  list(REMOVE_ITEM ${list} ${shared})
  add_library(overlapbench_kernel_objects OBJECT ${shared})
  overlapbench_compile_for_library(overlapbench_kernel_objects)
  set(${list} ${${list}} $<TARGET_OBJECTS:overlapbench_kernel_objects> PARENT_SCOPE)
endfunction()

function(overlapbench_compile_for_library target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  overlapbench_set_cuda_options(${target} PRIVATE)
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:overlapbench_flags>)
endfunction()

function(overlapbench_set_cuda_options target scope)
  target_compile_options(${target} ${scope} $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  # nvcc loses a quote in an absolute -I. Ninja compiles in the build folder.
  if(CMAKE_SOURCE_DIR MATCHES "'")
    file(RELATIVE_PATH headers ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
    target_compile_options(${target} ${scope}
      $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-I${headers}>>)
  endif()
  target_include_directories(${target} SYSTEM ${scope}
    "$<BUILD_INTERFACE:${CUDAToolkit_INCLUDE_DIRS}>")
  # Some toolkits have CUPTI's headers elsewhere. The library is opened at run time
  # (device/cuda/cupti.h).
  if(CUDAToolkit_CUPTI_INCLUDE_DIR)
    target_include_directories(${target} SYSTEM ${scope}
      "$<BUILD_INTERFACE:${CUDAToolkit_CUPTI_INCLUDE_DIR}>")
  endif()
endfunction()

# The kernels alone, behind a C interface, for programs that have their own buffers and streams.
function(overlapbench_add_kernels_library)
  if(NOT overlapbench_with_cuda)
    return()
  endif()
  add_library(overlapbench_kernels SHARED
    kernels/library/overlapbench_kernels.cu $<TARGET_OBJECTS:overlapbench_kernel_objects>)
  overlapbench_compile_for_library(overlapbench_kernels)
  # The linker's list also hides the standard library's templates, which visibility does not.
  set(exports ${CMAKE_SOURCE_DIR}/cmake/exports.map)
  set_target_properties(overlapbench_kernels PROPERTIES LINK_DEPENDS ${exports})
  target_link_options(overlapbench_kernels PRIVATE LINKER:--version-script=${exports})
  target_link_libraries(overlapbench_kernels PRIVATE CUDA::cudart_static Threads::Threads)
endfunction()
