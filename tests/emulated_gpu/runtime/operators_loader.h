// Loads the library that replaces LibTorch's CUDA operators.
#pragma once

namespace emulated_gpu {

/// Loads the library that EMULATED_GPU_TORCH names once the program itself has loaded libtorch_cuda.so, and
/// not before: loading it from the start would hide a program that loads LibTorch's CUDA half too late.
void load_operators();

}  // namespace emulated_gpu
