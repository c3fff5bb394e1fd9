/// Memory that another process can map too: a table and its output tensors where a peer in another process
/// works on them.
#pragma once

#include <string>

#include "speedtorch/memory/block.h"
#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// Returns `bytes` > 0 bytes in an unnamed file (memfd), whose descriptor is `Memory::shared_fd()`.
/// `pageable` and `hugepage` advise their kind of page; `pinned` is registered with CUDA for `device`.
/// Contents are zero.
/// @throws MemoryError with what was asked for and what the system answered; PlacementError for other
/// placements
std::shared_ptr<Memory> allocate_shared(Placement placement, std::int64_t bytes,
                                        at::Device device = at::kCPU);

/// Maps `bytes` > 0 bytes from byte `offset` of a file that another process shares. `pageable` and `hugepage`
/// advise their kind of page; `mapped` is a file on a disk. Its check() finds a file that has shrunk.
/// @param writable false: the library refuses writes, and others end the process
/// @throws LimitError, MemoryError if the address space is too small or the file may not be mapped so;
/// FileError if the file is shorter
std::shared_ptr<Memory> map_shared(Placement placement, Descriptor file, std::int64_t offset,
                                   std::int64_t bytes, bool writable);

/// Fixes the size of memory without a name for good. Otherwise a process that shrinks it would end each that
/// touches what was cut off (SIGBUS). @throws FileError
void seal_size(int fd);

/// Why shared memory gets no huge pages here, with the cure; empty if it can. On most machines the setting is
/// `never`, whatever the one for private memory says.
/// @param setting the kernel's file; tests replace it
std::string huge_shared_pages_refusal(
    const std::string& setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled");

}  // namespace speedtorch
