# The substitute CUDA runtime: libcudart.so.13, libcuda.so.1 (a link to it) and libnvidia-ml.so.1, in one folder for
# LD_LIBRARY_PATH. Needs the target emulated_gpu_ptx (ptx.cmake).
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/runtime/*.cpp)
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$|/nvml[a-z_]*\\.cpp$")
set(folder ${CMAKE_BINARY_DIR}/emulated_gpu)

add_library(emulated_gpu_runtime SHARED ${sources})
stbench_together(emulated_gpu_runtime 25 APART runtime/absent.cpp runtime/api_driver.cpp runtime/api_graphs.cpp)
set_target_properties(emulated_gpu_runtime PROPERTIES
  OUTPUT_NAME cudart SUFFIX .so.13 LIBRARY_OUTPUT_DIRECTORY ${folder} CXX_VISIBILITY_PRESET hidden
  LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/runtime/runtime.map)
target_link_libraries(emulated_gpu_runtime PRIVATE stbench_flags emulated_gpu_ptx ${CMAKE_DL_LIBS} Threads::Threads)
target_include_directories(emulated_gpu_runtime SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
# Programs ask for the version of each symbol that NVIDIA's library has.
target_link_options(emulated_gpu_runtime PRIVATE
  "LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/runtime/runtime.map" LINKER:-soname,libcudart.so.13
  LINKER:-z,nodelete $<$<NOT:$<BOOL:${STBENCH_SANITIZE}>>:LINKER:-z,defs>)
add_custom_command(TARGET emulated_gpu_runtime POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E create_symlink libcudart.so.13 ${folder}/libcuda.so.1)

add_library(emulated_gpu_nvml SHARED
  runtime/nvml.cpp runtime/nvml_sensors.cpp runtime/settings.cpp runtime/messages.cpp)
set_target_properties(emulated_gpu_nvml PROPERTIES
  OUTPUT_NAME nvidia-ml SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${folder} CXX_VISIBILITY_PRESET hidden)
target_link_libraries(emulated_gpu_nvml PRIVATE stbench_flags ${CMAKE_DL_LIBS})

# The tests link the substitute itself; kernels come as PTX, without nvcc. What reads fat binaries is hidden in it.
file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/runtime/*_test.cpp)
stbench_test(emulated_gpu_runtime_test SOURCES ${tests} runtime/fat_binary.cpp runtime/messages.cpp
  LIBRARIES emulated_gpu_runtime ${CMAKE_DL_LIBS} Threads::Threads)
stbench_together(emulated_gpu_runtime_test 8)
target_include_directories(emulated_gpu_runtime_test SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
add_dependencies(emulated_gpu_runtime_test emulated_gpu_nvml)
