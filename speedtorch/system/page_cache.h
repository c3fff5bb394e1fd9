/// Makes all pages of a file, or of a part of it, resident, or evicts them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace speedtorch {

/// A part of a file and a shared mapping of it: `data[0]` is byte `offset` of the file. Both begin with a
/// page.
struct MappedBytes {
  const std::byte* data;
  std::int64_t bytes;
  int fd;
  std::int64_t offset = 0;
};

/// Reads the file into memory and into this process's page tables, so that no row faults. Uses huge pages if
/// the kernel and the file system have them (ext4 from Linux 6.16, XFS earlier).
///
/// Best effort: the file may not fit into memory. resident_fraction() reports the result. (Gathering rows of
/// 512 B from huge pages ran at three times the rate of 4 KiB pages.)
void make_resident(const MappedBytes& file);

/// Evicts the file from memory. Writes dirty pages to the disk and drops all pages, also from this process's
/// other shared mappings of the file.
///
/// Best effort: pages that another process maps stay, and so do the files of a tmpfs. resident_fraction()
/// reports what stayed.
/// @throws FileError if the disk refuses the dirty pages
void evict(const MappedBytes& file);

}  // namespace speedtorch
