# LibTorch's CUDA operators for the emulated device: libemulated_torch.so, which EMULATED_GPU_TORCH names. Needs the
# target emulated_gpu_runtime (runtime.cmake).
set(torch_sources)
foreach(part call composites copy deferred host_tensor operator precision random registration shapes sparse)
  list(APPEND torch_sources torch/${part}.cpp)
endforeach()
# The CUDA half is linked here only: programs load it by themselves (see cmake/FindLibTorch.cmake).
find_library(LibTorch_CUDA_LIBRARY torch_cuda HINTS ${LibTorch_LIBRARY_DIR} NO_DEFAULT_PATH)
mark_as_advanced(LibTorch_CUDA_LIBRARY)

add_library(emulated_torch SHARED ${torch_sources})
set_target_properties(emulated_torch PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/emulated_gpu)
stbench_together(emulated_torch 12)
stbench_plain_code(emulated_torch)  # LibTorch does the work
target_include_directories(emulated_torch SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(emulated_torch PRIVATE stbench_flags LibTorch::cpu LibTorch::c10_cuda ${LibTorch_CUDA_LIBRARY}
  emulated_gpu_runtime)

stbench_test_program(emulated_gpu_torch_test
  SOURCES torch/trial.cpp torch/elementwise_test.cpp torch/indexing_test.cpp torch/layers_test.cpp torch/order_test.cpp
    torch/training_test.cpp
  LIBRARIES emulated_gpu_runtime LibTorch::cpu LibTorch::c10_cuda ${CMAKE_DL_LIBS} GTest::gtest GTest::gtest_main)
stbench_together(emulated_gpu_torch_test 6)
target_include_directories(emulated_gpu_torch_test SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
add_dependencies(emulated_gpu_torch_test emulated_torch)
