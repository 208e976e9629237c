# Finds nvcc and enables the language CUDA, for the suite's own build and for programs that link an
# installed one. CMAKE_CUDA_COMPILER is empty afterwards if there is no nvcc. Include it at the top
# level of a file, where languages can be enabled.
include(CheckLanguage)

# nvcc is often installed without being on the PATH.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(overlapbench_nvcc nvcc HINTS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin)
  if(overlapbench_nvcc)
    set(CMAKE_CUDA_COMPILER ${overlapbench_nvcc})
  endif()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc speaks C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  endif()
endif()
