/// Counts what this test program allocates by `new`. To be included by one source of a program.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace speedtorch::kernels {

inline std::atomic<long> allocation_count = 0;

/// So far, of all threads.
inline long allocations() { return allocation_count; }

}  // namespace speedtorch::kernels

// Not inlined: the compiler would see memory of malloc given to delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++speedtorch::kernels::allocation_count;
  if (void* const block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t /*bytes*/) noexcept { std::free(block); }
