// Reads the PTX out of a fat binary, as nvcc embeds it in a program.
#pragma once
#include <cstdint>
#include <string>

namespace emulated_gpu {

struct Ptx {
  std::string text;
  int architecture = 0;  ///< 90 for compute_90
};

/// Returns the PTX for the newest or the oldest architecture that a device of compute capability `device` (90
/// for 9.0) can run. @param wrapper what __cudaRegisterFatBinary gets
/// @throws std::runtime_error if there is none, or if it cannot be unpacked
Ptx ptx_of_fat_binary(const void* wrapper, int device, bool newest);

/// Unpacks a block of LZ4. @throws std::runtime_error if it is damaged
std::string unpack_lz4(const std::uint8_t* packed, std::size_t bytes, std::size_t unpacked_bytes);

}  // namespace emulated_gpu
