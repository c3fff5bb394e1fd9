/// The pages of a file in memory: all of them, or none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace speedtorch {

/// A whole file and a shared mapping of it: `data[0]` is the file's first byte.
struct MappedBytes {
  const std::byte* data;
  std::int64_t bytes;
  int fd;
};

/// Reads the file into memory and into this process's page tables, so that no row faults. In huge pages where
/// the kernel and the file system have them (ext4 from Linux 6.16 on; XFS earlier): rows of 512 B from such
/// pages came at three times the rate of those from 4 KiB pages.
///
/// A wish: the file may not fit into memory. resident_fraction() says what came.
void make_resident(const MappedBytes& file);

/// Takes the file out of memory: writes what is dirty to the disk, and drops the pages, also from other
/// shared mappings that this process has of the file. A wish: pages that another process has mapped stay, and
/// file systems that live in memory (tmpfs) keep theirs. resident_fraction() says what stayed.
/// @throws FileError where the disk refuses what is dirty
void evict(const MappedBytes& file);

}  // namespace speedtorch
