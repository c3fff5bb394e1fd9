# Finds LibTorch, from the folder Torch_DIR (…/share/cmake/Torch) or CMAKE_PREFIX_PATH names.
#
# Not find_package(Torch): its config enables CUDA, demands a toolkit for every CUDA build of LibTorch and
# links libtorch_cuda, which costs 0.5-0.7 s and 470 MB at every start. Here a program links torch_cpu and
# c10_cuda, and loads torch_cuda by itself where there is a driver (speedtorch/cuda.h).
#
# Targets:   LibTorch::cpu, and LibTorch::c10_cuda where LibTorch was built with CUDA
# Variables: LibTorch_VERSION, LibTorch_LIBRARY_DIR, LibTorch_HAS_CUDA

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h
  HINTS ${Torch_DIR}/../../.. ${Torch_ROOT} PATH_SUFFIXES include)
get_filename_component(_libtorch_prefix "${LibTorch_INCLUDE_DIR}" DIRECTORY)
set(_libtorch_lib ${_libtorch_prefix}/lib)
find_library(LibTorch_CPU_LIBRARY torch_cpu HINTS ${_libtorch_lib} NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 HINTS ${_libtorch_lib} NO_DEFAULT_PATH)
find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda HINTS ${_libtorch_lib} NO_DEFAULT_PATH)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_C10_CUDA_LIBRARY)

if(EXISTS ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h)
  set(_libtorch_version_file ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h)
else()
  set(_libtorch_version_file ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h)
endif()
if(EXISTS ${_libtorch_version_file})
  file(STRINGS ${_libtorch_version_file} _libtorch_version REGEX "define TORCH_VERSION \"")
  string(REGEX REPLACE ".*\"([0-9.]+).*" "\\1" LibTorch_VERSION "${_libtorch_version}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR VERSION_VAR LibTorch_VERSION)

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  set(LibTorch_LIBRARY_DIR ${_libtorch_lib})
  set(LibTorch_HAS_CUDA OFF)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(LibTorch::cpu INTERFACE ${LibTorch_CPU_LIBRARY} ${LibTorch_C10_LIBRARY})
  target_link_options(LibTorch::cpu INTERFACE "-Wl,-rpath,${_libtorch_lib}")
  if(LibTorch_C10_CUDA_LIBRARY)
    set(LibTorch_HAS_CUDA ON)
    add_library(LibTorch::c10_cuda INTERFACE IMPORTED)
    target_link_libraries(LibTorch::c10_cuda INTERFACE LibTorch::cpu ${LibTorch_C10_CUDA_LIBRARY})
  endif()
endif()
