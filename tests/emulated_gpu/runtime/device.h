// The properties of the emulated devices: an H100 of 132 multiprocessors.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace emulated_gpu {

constexpr int compute_capability = 90;
constexpr int cuda_version = 13000;
constexpr int multiprocessors = 132;
constexpr int warp_size = 32;
constexpr int most_threads_of_block = 1024;
constexpr int most_threads_of_multiprocessor = 2048;
constexpr int most_blocks_of_multiprocessor = 32;
constexpr std::size_t shared_of_multiprocessor = std::size_t{228} << 10;
constexpr std::size_t shared_of_block = std::size_t{48} << 10;
constexpr std::size_t shared_of_block_at_most = std::size_t{227} << 10;
constexpr std::size_t reserved_shared = 1024;  ///< of each block, by the system

/// Its place on the PCI bus as CUDA writes it: 0000:3B:00.0.
std::string bus_id(int device);
constexpr int bus_number(int device) { return 0x3B + device; }

cudaDeviceProp properties_of(int device);

/// Returns false for an attribute that is not known; it is then 0.
bool attribute_of(int device, cudaDeviceAttr attribute, int* value);

}  // namespace emulated_gpu
