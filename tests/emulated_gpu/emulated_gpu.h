// The functions that the substitute libcudart.so.13 exports beside CUDA's, for LibTorch's operators and for
// tests.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

extern "C" {

/// Its presence (dlsym(RTLD_DEFAULT, "emulated_gpu_marker")) tells a program that its CUDA runtime is the
/// substitute.
extern const int emulated_gpu_marker;

/// Returns where the byte of a device address lies on the host. A host address stays; null if nothing is
/// there.
void* emulated_gpu_bytes(const void* device);

/// Marks bytes as written, so that reading them is no fault. Host addresses are ignored.
void emulated_gpu_wrote(const void* device, size_t bytes);

/// Returns 1 if the stream is being captured, else 0.
int emulated_gpu_is_capturing(cudaStream_t stream);

/// Queues `work(argument)` on a stream, where it runs like a host function: when the stream gets there.
/// `release(argument)` is called once the work cannot run any more (after it ran, or when the graph that
/// holds it is destroyed); either may be null. `work` may call emulated_gpu_bytes and emulated_gpu_wrote, but
/// not the CUDA runtime. `what` is copied and names the work in traces. On an error nothing is queued, and
/// `release` is called.
cudaError_t emulated_gpu_enqueue(cudaStream_t stream, const char* what, void (*work)(void*),
                                 void (*release)(void*), void* argument);

/// Returns 1 if the device has a context: if something was allocated, launched or created on it, else 0.
int emulated_gpu_has_context(int device);

/// Returns how many kernels the process has run.
unsigned long long emulated_gpu_launches(void);

}  // extern "C"
