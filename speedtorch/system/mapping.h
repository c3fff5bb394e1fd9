/// Mappings that end with their owner, and the error for memory that is not available.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "speedtorch/placement.h"
#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// @throws MemoryError always: `call` failed with errno for `bytes` bytes of `kind` memory
[[noreturn]] void refuse_memory(const std::string& kind, std::int64_t bytes, const std::string& call);

/// @throws MemoryError unless `bytes` is at least 1
void require_bytes(std::int64_t bytes);

/// A private anonymous mapping of `bytes`, rounded up to whole pages, with an inaccessible guard page behind
/// it. The guard page separates mappings, so that huge pages and their count end with the memory. A mapping
/// of at least 2 MiB is aligned to 2 MiB, so that huge pages can start at its first byte.
class AlignedMapping {
 public:
  /// @param protection as mmap takes it @throws MemoryError naming `kind`
  AlignedMapping(const std::string& kind, std::int64_t bytes, int protection);
  ~AlignedMapping();
  AlignedMapping(const AlignedMapping&) = delete;
  AlignedMapping& operator=(const AlignedMapping&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::size_t length_;
  std::byte* data_;
};

/// `bytes` > 0 bytes of a file from `offset` on, mapped shared: writes go to the file.
class FileMapping {
 public:
  /// @param offset a multiple of the page size
  /// @param protection as mmap takes it @throws MemoryError
  FileMapping(int fd, std::int64_t offset, std::int64_t bytes, int protection);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::size_t length_;
};

/// Touching mapped bytes behind the end of their file would end the process.
/// @throws FileError naming `what` and both sizes if the file is shorter than `bytes`
void require_size(const std::string& what, int fd, std::int64_t bytes);

/// Advises the kernel to use the placement's kind of pages. Fails silently on kernels without transparent
/// huge pages; pages_got() reports the result.
void advise_pages(Placement placement, std::byte* data, std::int64_t bytes);

/// Faults in all pages of fresh memory on LibTorch's threads; a registration with CUDA would use one thread.
/// The contents stay. (2 GiB of 4 KiB pages: 0.70 s on one thread, 0.60 s on two of a shared machine.)
void prefault(std::byte* data, std::int64_t bytes);

}  // namespace speedtorch
