# Enables CUDA where a compiler is found. STBENCH_HAS_CUDA says whether the CUDA kernels are built; no driver is
# needed to build them. Architectures: Turing to Blackwell plus PTX for what comes later.

set(STBENCH_HAS_CUDA OFF)
if(STBENCH_CUDA)
  include(CheckLanguage)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100)
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)   # the runtime LibTorch uses too: one copy in the process
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)            # CMake 3.25 knows no 20 for this nvcc
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    set(STBENCH_HAS_CUDA ON)
  endif()
endif()
if(STBENCH_HAS_CUDA)
  message(STATUS "CUDA kernels: built with ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")
else()
  message(STATUS "CUDA kernels: not built (no CUDA compiler); host rows only")
endif()
