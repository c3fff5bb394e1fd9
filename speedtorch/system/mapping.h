/// What the host placements are made of: mappings that go with their owner, and the refusal of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "speedtorch/placement.h"
#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// @throws MemoryError, always: `bytes` of memory of `kind` cannot be had, because `call` failed with errno.
[[noreturn]] void refuse_memory(const std::string& kind, std::int64_t bytes, const std::string& call);

/// @throws MemoryError unless at least a byte is asked for.
void require_bytes(std::int64_t bytes);

/// A private anonymous mapping of `bytes`, to whole pages and no more, behind which a page lies that cannot
/// be touched: it keeps mappings apart, so that huge pages and their count end with the memory. One of at
/// least 2 MiB is aligned to 2 MiB, so that huge pages can begin at its first byte.
class AlignedMapping {
 public:
  /// @param protection of mmap @throws MemoryError naming `kind`
  AlignedMapping(const std::string& kind, std::int64_t bytes, int protection);
  ~AlignedMapping();
  AlignedMapping(const AlignedMapping&) = delete;
  AlignedMapping& operator=(const AlignedMapping&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::size_t length_;
  std::byte* data_;
};

/// The first `bytes` > 0 bytes of a file, mapped shared: what is written is the file's.
class FileMapping {
 public:
  /// @param protection of mmap @throws MemoryError
  FileMapping(int fd, std::int64_t bytes, int protection);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::size_t length_;
};

/// Asks for the placement's kind of pages. A wish: where the kernel was built without transparent huge pages
/// it fails, and pages_got() reports what came.
void advise_pages(Placement placement, std::byte* data, std::int64_t bytes);

/// Has the system give every page of fresh memory now, on LibTorch's threads (2 GiB of 4 KiB pages: 0.70 s on
/// one thread, 0.60 s on two of a shared machine), where a registration with CUDA would use one. Contents
/// stay.
void prefault(std::byte* data, std::int64_t bytes);

}  // namespace speedtorch
