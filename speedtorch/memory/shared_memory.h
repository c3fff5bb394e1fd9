/// Memory that another process can map too: a table and its ready tensors where a peer in a process of its
/// own works on them.
#pragma once

#include <string>

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// Memory of `bytes` > 0 bytes in a file without a name (memfd), `Memory::shared_fd()` being its descriptor.
/// `pageable` and `hugepage` ask for their kind of page; `pinned` is registered with CUDA for `device`.
/// Contents are zero.
/// @throws MemoryError naming what was asked and what the system answered; PlacementError for other
/// placements.
std::shared_ptr<Memory> allocate_shared(Placement placement, std::int64_t bytes,
                                        at::Device device = at::kCPU);

/// Why shared memory gets no huge pages here, with the cure; empty where it can. On most machines the setting
/// is `never`, whatever the one for private memory says.
/// @param setting the kernel's file; tests replace it
std::string huge_shared_pages_refusal(
    const std::string& setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled");

}  // namespace speedtorch
