/// Counts this test program's allocations by `new`. Include it in one source of a program.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace speedtorch::kernels {

inline std::atomic<long> allocation_count = 0;

/// The allocations of all threads so far.
inline long allocations() { return allocation_count; }

}  // namespace speedtorch::kernels

// Not inlined, because the compiler would see memory of malloc passed to delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++speedtorch::kernels::allocation_count;
  if (void* const block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t /*bytes*/) noexcept { std::free(block); }
