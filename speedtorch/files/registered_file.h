/// A file's mapping that is registered with CUDA for reading. For a GPU that gpu_of() has checked; for the
/// library's own files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// Why a file of `bytes` cannot be registered on `gpu`; empty if only the driver can say.
std::string registration_refusal(std::int64_t bytes, at::Device gpu);

/// The elements of `file` as `gpu` sees them. `mapping` is whole pages around them.
/// @throws MemoryError if the driver refuses
std::shared_ptr<Memory> register_file(std::shared_ptr<Memory> file, std::span<std::byte> mapping,
                                      at::Device gpu);

}  // namespace speedtorch
