#include "speedtorch/system/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "speedtorch/error.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr auto huge_page = static_cast<std::size_t>(kHugePageBytes);
constexpr std::int64_t prefault_piece = std::int64_t{32} << 20;

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::size_t whole_pages(std::int64_t bytes) {
  const auto size = page_bytes();
  return (static_cast<std::size_t>(bytes) + size - 1) / size * size;
}

void* map(std::size_t length, int protection) {
  return ::mmap(nullptr, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/// For kernels before 5.14, which cannot populate: writes back the first byte of each page.
void touch_pages(std::byte* data, std::int64_t bytes) {
  const auto size = static_cast<std::int64_t>(page_bytes());
  for (std::int64_t at = 0; at < bytes; at += size) {
    volatile std::byte& first = data[at];
    first = first;
  }
}

}  // namespace

void refuse_memory(const std::string& kind, std::int64_t bytes, const std::string& call) {
  const std::string answer = std::strerror(errno);
  throw MemoryError("cannot allocate " + std::to_string(bytes) + " bytes of " + kind + " memory: " + call +
                    ": " + answer);
}

void require_bytes(std::int64_t bytes) {
  if (bytes <= 0)
    throw MemoryError("memory of " + std::to_string(bytes) + " bytes was asked for; at least 1 is needed");
}

AlignedMapping::AlignedMapping(const std::string& kind, std::int64_t bytes, int protection)
    : length_(whole_pages(bytes) + page_bytes()) {
  const bool may_be_huge = length_ > huge_page;
  void* mapping = may_be_huge ? map(length_ + huge_page, protection) : MAP_FAILED;
  const bool aligned = mapping != MAP_FAILED;
  if (!aligned)
    mapping =
        map(length_, protection);  // too small for a huge page, or not enough address space for the alignment
  if (mapping == MAP_FAILED) refuse_memory(kind, bytes, "mmap");
  data_ = static_cast<std::byte*>(mapping);
  if (aligned) {
    const auto head = (huge_page - reinterpret_cast<std::uintptr_t>(data_) % huge_page) % huge_page;
    if (head > 0) ::munmap(data_, head);
    data_ += head;
    if (head < huge_page) ::munmap(data_ + length_, huge_page - head);
  }
  ::mprotect(data_ + length_ - page_bytes(), page_bytes(), PROT_NONE);
}

AlignedMapping::~AlignedMapping() { ::munmap(data_, length_); }

FileMapping::FileMapping(int fd, std::int64_t offset, std::int64_t bytes, int protection)
    : length_(static_cast<std::size_t>(bytes)) {
  void* mapping = ::mmap(nullptr, length_, protection, MAP_SHARED, fd, offset);
  if (mapping == MAP_FAILED) refuse_memory("mapped", bytes, "mmap");
  data_ = static_cast<std::byte*>(mapping);
}

FileMapping::~FileMapping() { ::munmap(data_, length_); }

void require_size(const std::string& what, int fd, std::int64_t bytes) {
  struct stat now {};
  if (::fstat(fd, &now) == 0 && now.st_size >= bytes) return;
  throw FileError(what + " was shrunk: " + std::to_string(bytes) + " bytes are mapped, and it has " +
                  std::to_string(now.st_size));
}

void advise_pages(Placement placement, std::byte* data, std::int64_t bytes) {
  ::madvise(data, static_cast<std::size_t>(bytes),
            placement == Placement::hugepage ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void prefault(std::byte* data, std::int64_t bytes) {
  const auto pieces = (bytes + prefault_piece - 1) / prefault_piece;
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    auto* from = data + begin * prefault_piece;
    const auto length = std::min(end * prefault_piece, bytes) - begin * prefault_piece;
    if (::madvise(from, static_cast<std::size_t>(length), MADV_POPULATE_WRITE) != 0)
      touch_pages(from, length);
  });
}

}  // namespace speedtorch
