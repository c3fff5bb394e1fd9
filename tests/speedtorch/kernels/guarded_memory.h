/// Memory between two inaccessible pages: a byte read or written beyond it ends the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace speedtorch::kernels {

class GuardedMemory {
 public:
  /// `bytes`, rounded up to pages.
  explicit GuardedMemory(std::int64_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inner_ = (static_cast<std::size_t>(bytes) + page - 1) / page * page;
    size_ = inner_ + 2 * page;
    map_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map_ == MAP_FAILED) throw std::bad_alloc();
    first_ = static_cast<std::byte*>(map_) + page;
    if (mprotect(first_, inner_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~GuardedMemory() { munmap(map_, size_); }
  GuardedMemory(const GuardedMemory&) = delete;

  /// The first byte behind the first guard page.
  std::byte* first() const { return first_; }
  /// `bytes` before the last guard page.
  std::byte* last(std::int64_t bytes) const { return first_ + inner_ - bytes; }

 private:
  std::size_t inner_ = 0;
  std::size_t size_ = 0;
  void* map_ = nullptr;
  std::byte* first_ = nullptr;
};

}  // namespace speedtorch::kernels
