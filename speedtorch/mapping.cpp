#include "speedtorch/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

constexpr std::size_t huge = std::size_t{2} << 20;

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
    : length_(static_cast<std::size_t>(bytes) + huge) {
  mapping_ = ::mmap(nullptr, length_, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) refuse_memory(kind, bytes, "mmap");
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = reinterpret_cast<std::byte*>((address + huge - 1) / huge * huge);
}

AlignedMapping::~AlignedMapping() { ::munmap(mapping_, length_); }

FileMapping::FileMapping(int fd, std::int64_t bytes, int protection)
    : length_(static_cast<std::size_t>(bytes)) {
  void* mapping = ::mmap(nullptr, length_, protection, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) refuse_memory("mapped", bytes, "mmap");
  data_ = static_cast<std::byte*>(mapping);
}

FileMapping::~FileMapping() { ::munmap(data_, length_); }

void wish_pages(Placement placement, std::byte* data, std::int64_t bytes) {
  ::madvise(data, static_cast<std::size_t>(bytes),
            placement == Placement::hugepage ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace speedtorch
