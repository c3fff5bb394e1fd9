/// A file's mapping as a GPU sees it: in place if the driver can, and otherwise the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// The way a GPU reads the rows of a file.
struct PinnedFile {
  /// The elements, if kernels read them in place (they never write them): its tensors are on the GPU. Null if
  /// rows must be staged: gathered on the host and copied.
  std::shared_ptr<Memory> memory;
  std::string reason;  ///< one sentence: why in place, or why not
};

/// Why a GPU cannot read a file of `bytes` in place. Empty if only the driver can say; it may still refuse.
/// Not yet run on a GPU.
/// @throws PlacementError if `device` is not a CUDA device
std::string in_place_refusal(std::int64_t bytes, at::Device device);

/// Registers `mapping`, whole pages around the bytes of `file`, with CUDA for reading on `device`. `file`
/// lives as long as the result. If it cannot, the result gives the reason; no CUDA error is left behind. Not
/// yet run on a GPU.
/// @throws PlacementError if `device` is not a CUDA device
PinnedFile register_read_only(std::shared_ptr<Memory> file, std::span<std::byte> mapping, at::Device device);

}  // namespace speedtorch
