# Finds LibTorch by the folder Torch_DIR (…/share/cmake/Torch; a CMake or environment variable), or through
# CMAKE_PREFIX_PATH, which may name LibTorch's top folder or the value of Python's torch.utils.cmake_prefix_path.
#
# find_package(Torch) does not serve: its config enables CUDA, requires a toolkit for each CUDA build of LibTorch and links
# libtorch_cuda, which costs 0.5-0.7 s and 470 MB at each start. Here a program links torch_cpu and c10_cuda, and loads
# torch_cuda at run time if there is a driver (speedtorch/cuda.h).
#
# Targets:   LibTorch::cpu; LibTorch::parallel, for files that call at::parallel_for; LibTorch::c10_cuda if LibTorch was
#            built with CUDA
# Variables: LibTorch_VERSION, LibTorch_LIBRARY_DIR, LibTorch_HAS_CUDA, LibTorch_CUDA_MAJOR

set(_libtorch_hints ${Torch_ROOT})
foreach(_libtorch_dir IN ITEMS "${Torch_DIR}" "$ENV{Torch_DIR}")
  if(_libtorch_dir)
    list(APPEND _libtorch_hints ${_libtorch_dir}/../../.. ${_libtorch_dir})
  endif()
endforeach()
find_path(LibTorch_INCLUDE_DIR ATen/ATen.h HINTS ${_libtorch_hints} PATH_SUFFIXES include ../../include)
get_filename_component(LibTorch_INCLUDE_DIR "${LibTorch_INCLUDE_DIR}" ABSOLUTE)
get_filename_component(_libtorch_prefix "${LibTorch_INCLUDE_DIR}" DIRECTORY)
set(_libtorch_lib ${_libtorch_prefix}/lib)
find_library(LibTorch_CPU_LIBRARY torch_cpu HINTS ${_libtorch_lib} NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 HINTS ${_libtorch_lib} NO_DEFAULT_PATH)
find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda HINTS ${_libtorch_lib} NO_DEFAULT_PATH)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_C10_CUDA_LIBRARY)

foreach(_libtorch_file torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(EXISTS ${LibTorch_INCLUDE_DIR}/${_libtorch_file})
    file(STRINGS ${LibTorch_INCLUDE_DIR}/${_libtorch_file} _libtorch_version
      REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    list(TRANSFORM _libtorch_version REPLACE ".* ([0-9]+)$" "\\1")
    list(JOIN _libtorch_version "." LibTorch_VERSION)
    break()
  endif()
endforeach()

# The cure if LibTorch is missing or has another version. No semicolon: the text becomes a list.
set(_libtorch_help "
  Name LibTorch's folder that holds TorchConfig.cmake: -DTorch_DIR=DIR (now: \"${Torch_DIR}\").
  A Python that has torch prints it:
    python3 -c \"print(__import__('torch').utils.cmake_prefix_path + '/Torch')\"")
if(LibTorch_FIND_VERSION_EXACT)
  string(APPEND _libtorch_help "
  The library was built with LibTorch ${LibTorch_FIND_VERSION} and needs this version. For another one, build and install
  the library again.")
endif()
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../scripts/setup)
  string(APPEND _libtorch_help "
  Or let scripts/setup find or install one, and then run cmake -C build/setup.cmake --preset NAME.")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${_libtorch_help}")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  set(LibTorch_LIBRARY_DIR ${_libtorch_lib})
  set(LibTorch_HAS_CUDA OFF)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(LibTorch::cpu INTERFACE ${LibTorch_CPU_LIBRARY} ${LibTorch_C10_LIBRARY})
  # A RELOCATABLE target finds LibTorch by its own path.
  target_link_options(LibTorch::cpu INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:RELOCATABLE>>>:-Wl,-rpath,${_libtorch_lib}>)

  # at::parallel_for is a template around an OpenMP pragma; compiled without OpenMP it is a plain loop on one thread.
  # The runtime must be LibTorch's own (the wheels contain it), or there are two thread pools. Only GNU's compiler can use
  # it. Other compilers' OpenMP calls another runtime (libomp), so there our loops have a second pool.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  file(GLOB _libtorch_openmp ${_libtorch_lib}/libgomp*.so* ${_libtorch_prefix}/../torch.libs/libgomp*.so*)
  add_library(LibTorch::parallel INTERFACE IMPORTED)
  separate_arguments(_libtorch_openmp_flags UNIX_COMMAND "${OpenMP_CXX_FLAGS}")
  target_compile_options(LibTorch::parallel INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${_libtorch_openmp_flags}>)
  if(_libtorch_openmp AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(GET _libtorch_openmp 0 _libtorch_openmp)
    target_link_libraries(LibTorch::parallel INTERFACE LibTorch::cpu ${_libtorch_openmp})
  else()
    target_link_libraries(LibTorch::parallel INTERFACE LibTorch::cpu ${OpenMP_CXX_LIBRARIES})
  endif()

  if(LibTorch_C10_CUDA_LIBRARY)
    set(LibTorch_HAS_CUDA ON)
    file(STRINGS ${LibTorch_C10_CUDA_LIBRARY} _libtorch_cudart REGEX "libcudart[^ /]*\\.so\\.[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE ".*libcudart[^ /]*\\.so\\.([0-9]+).*" "\\1" LibTorch_CUDA_MAJOR "${_libtorch_cudart}")
    add_library(LibTorch::c10_cuda INTERFACE IMPORTED)
    target_link_libraries(LibTorch::c10_cuda INTERFACE LibTorch::cpu ${LibTorch_C10_CUDA_LIBRARY})
  endif()
endif()
