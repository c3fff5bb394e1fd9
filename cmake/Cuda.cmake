# Enables CUDA if LibTorch was built with it and a compiler is found. STBENCH_HAS_CUDA says whether the CUDA kernels are
# built; this needs no driver.
#
# STBENCH_CUDA_ARCH chooses the code. `native` is machine code for this machine's GPUs, and PTX of 7.5 and 9.0, from which
# the driver makes code for any other GPU. `default` adds machine code for all supported GPUs, Turing to Blackwell, for
# packages: it takes three times as long. CMAKE_CUDA_ARCHITECTURES overrides both.
# A named compiler (CMAKE_CUDA_COMPILER, CUDACXX) must work; without a name it may be absent.

set(STBENCH_CUDA_ARCH native CACHE STRING "CUDA code: native (this machine's GPUs, and PTX) or default (all supported GPUs)")

# stbench_cuda_architectures(RESULT COMPILER): the list for CMAKE_CUDA_ARCHITECTURES. A GPU that is newer than the compiler
# runs the PTX.
function(stbench_cuda_architectures result compiler)
  if(STBENCH_CUDA_ARCH STREQUAL default)
    set(${result} 75 80-real 86-real 89-real 90 100 PARENT_SCOPE)
    return()
  elseif(NOT STBENCH_CUDA_ARCH STREQUAL native)
    message(FATAL_ERROR "STBENCH_CUDA_ARCH=${STBENCH_CUDA_ARCH}: choose native or default; "
      "CMAKE_CUDA_ARCHITECTURES takes a list of compute capabilities")
  endif()
  set(architectures 75-virtual 90-virtual)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE found RESULT_VARIABLE status ERROR_QUIET)
  if(status EQUAL 0)
    execute_process(COMMAND "${compiler}" --list-gpu-code OUTPUT_VARIABLE known RESULT_VARIABLE ignored ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+[.][0-9]+" found "${found}")
    foreach(capability IN LISTS found)
      string(REPLACE "." "" capability "${capability}")
      if(capability GREATER_EQUAL 75 AND (NOT known MATCHES sm_ OR known MATCHES "sm_${capability}[^0-9]"))
        list(APPEND architectures ${capability}-real)
      endif()
    endforeach()
    list(REMOVE_DUPLICATES architectures)
  endif()
  set(${result} ${architectures} PARENT_SCOPE)
endfunction()

set(STBENCH_HAS_CUDA OFF)
set(_cuda_absent "")
if(NOT STBENCH_CUDA)
  set(_cuda_absent "STBENCH_CUDA is OFF")
elseif(NOT LibTorch_HAS_CUDA)
  set(_cuda_absent "this LibTorch is CPU-only")
else()
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    include(CheckLanguage)
    find_program(STBENCH_NVCC nvcc PATHS /usr/local/cuda/bin)
    mark_as_advanced(STBENCH_NVCC)
    if(STBENCH_NVCC)
      set(CMAKE_CUDA_COMPILER ${STBENCH_NVCC})
    else()
      check_language(CUDA)
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX})
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(_compiler ${CMAKE_CUDA_COMPILER})
      if(NOT _compiler)
        set(_compiler $ENV{CUDACXX})
      endif()
      stbench_cuda_architectures(CMAKE_CUDA_ARCHITECTURES "${_compiler}")
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)   # LibTorch's runtime, so that the process has one copy
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)              # CMake 3.25 does not know 20 for this nvcc
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    set(STBENCH_HAS_CUDA ON)
  else()
    set(_cuda_absent "no CUDA compiler; name one with CMAKE_CUDA_COMPILER")
  endif()
endif()

if(STBENCH_HAS_CUDA)
  if(LibTorch_CUDA_MAJOR AND NOT CUDAToolkit_VERSION_MAJOR EQUAL LibTorch_CUDA_MAJOR)
    message(FATAL_ERROR "The CUDA toolkit ${CUDAToolkit_VERSION} does not match LibTorch's CUDA ${LibTorch_CUDA_MAJOR}: "
      "name a matching nvcc with CMAKE_CUDA_COMPILER, or build the host part only with -DSTBENCH_CUDA=OFF")
  endif()
  message(STATUS "CUDA kernels: built with ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA kernels: not built (${_cuda_absent}); host rows only")
endif()
