/// Loads and stores for each `Access` of the plan, which only a device can run.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "speedtorch/kernels/cuda/lane.h"

namespace speedtorch::kernels {

/// The runtime's type of a word, for which the load and store intrinsics are overloaded.
template <class Word>
struct Native {
  using type = std::conditional_t<sizeof(Word) == 8, unsigned long long, Word>;
};
template <>
struct Native<Word16> {
  using type = ulonglong2;
};

template <class Index>
using NativeIndex = std::conditional_t<sizeof(Index) == 8, long long, int>;

template <class To, class From>
__device__ To reinterpret_word(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// Read-only, not kept in the first-level cache, with the second-level cache's fetch size; no intrinsic offers
// this.
#define SPEEDTORCH_LOAD(Word, Register, constraint, type, fetch)              \
  __device__ inline void load_past_l1_##fetch(const void* from, Word& word) { \
    Register bits;                                                            \
    asm("ld.global.nc.L1::no_allocate.L2::" #fetch "B." type " %0, [%1];"     \
        : "=" constraint(bits)                                                \
        : "l"(from));                                                         \
    word = static_cast<Word>(bits);                                           \
  }
#define SPEEDTORCH_LOADS(fetch)                                                 \
  SPEEDTORCH_LOAD(std::uint8_t, std::uint16_t, "h", "u8", fetch)                \
  SPEEDTORCH_LOAD(std::uint16_t, std::uint16_t, "h", "u16", fetch)              \
  SPEEDTORCH_LOAD(std::uint32_t, std::uint32_t, "r", "u32", fetch)              \
  SPEEDTORCH_LOAD(std::uint64_t, unsigned long long, "l", "u64", fetch)         \
  __device__ inline void load_past_l1_##fetch(const void* from, Word16& word) { \
    unsigned long long low, high;                                               \
    asm("ld.global.nc.L1::no_allocate.L2::" #fetch "B.v2.u64 {%0, %1}, [%2];"   \
        : "=l"(low), "=l"(high)                                                 \
        : "l"(from));                                                           \
    word = {low, high};                                                         \
  }
SPEEDTORCH_LOADS(64)
SPEEDTORCH_LOADS(128)
#undef SPEEDTORCH_LOADS
#undef SPEEDTORCH_LOAD

/// Accesses rows through the read-only path: a call never writes what it reads.
template <Access kAccess>
struct RowMemory {
  template <class Word>
  __device__ Word load(const std::byte* from) const {
    if constexpr (kAccess == Access::link_read) {
      return reinterpret_word<Word>(__ldg(reinterpret_cast<const typename Native<Word>::type*>(from)));
    } else {
      Word word;
      if constexpr (kAccess == Access::sectors) {
        load_past_l1_64(from, word);
      } else {
        load_past_l1_128(from, word);
      }
      return word;
    }
  }

  template <class Word>
  __device__ void store(std::byte* to, Word word) const {
    if constexpr (kAccess == Access::link_write) {
      using Type = typename Native<Word>::type;
      __stcs(reinterpret_cast<Type*>(to), reinterpret_word<Type>(word));
    } else {
      *reinterpret_cast<Word*>(to) = word;
    }
  }

  template <class Index>
  __device__ Index load_index(const Index* at) const {
    return static_cast<Index>(__ldg(reinterpret_cast<const NativeIndex<Index>*>(at)));
  }

  /// The thread that first lowers the position from its default fills in what was seen.
  __device__ void bad_index(IndexErrors* errors, std::int64_t position, std::int64_t index,
                            std::int64_t rows) const {
    atomicAdd(&errors->count, 1ULL);
    if (atomicMin(&errors->first_position, static_cast<unsigned long long>(position)) != ~0ULL) return;
    errors->seen_position = position;
    errors->seen_index = index;
    errors->seen_rows = rows;
  }
};

/// Reads and writes data that is used once and leaves the caches first.
struct StreamingMemory {
  template <class Word>
  __device__ Word load(const std::byte* from) const {
    return reinterpret_word<Word>(__ldcs(reinterpret_cast<const typename Native<Word>::type*>(from)));
  }

  template <class Word>
  __device__ void store(std::byte* to, Word word) const {
    using Type = typename Native<Word>::type;
    __stcs(reinterpret_cast<Type*>(to), reinterpret_word<Type>(word));
  }
};

__device__ inline std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ inline std::int64_t thread_count() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

}  // namespace speedtorch::kernels
