/// A file's mapping as a GPU sees it: in place where the driver can, else not at all, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// How a GPU comes to the rows of a file.
struct PinnedFile {
  /// The elements where kernels read them in place (and never write): its tensors are on the GPU. Null where
  /// rows must be staged: gathered on the host and copied.
  std::shared_ptr<Memory> memory;
  std::string reason;  ///< why in place, or why not: one sentence
};

/// Why a GPU cannot read a file of so many bytes in place; empty where the driver is asked, which may still
/// refuse. Not yet run on a GPU.
/// @throws PlacementError where `device` is no CUDA device
std::string in_place_refusal(std::int64_t bytes, at::Device device);

/// `mapping`, whole pages from `file`'s mapping and around its bytes, registered with CUDA for reading on
/// `device`. `file` lives as long as the result. No error: what stands in the way is the reason, and no CUDA
/// error is left behind. Not yet run on a GPU.
/// @throws PlacementError where `device` is no CUDA device
PinnedFile register_read_only(std::shared_ptr<Memory> file, std::span<std::byte> mapping, at::Device device);

}  // namespace speedtorch
