#include "speedtorch/kernels/cuda/sort.h"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace speedtorch::kernels {
namespace {

/// Sorts, or writes the size of the scratch memory to `bytes` where `scratch` is null.
template <class Key>
void sort(std::byte* scratch, std::size_t& bytes, const Key* keys, Key* sorted_keys,
          const std::int32_t* values, std::int32_t* sorted_values, std::int64_t count, int bits,
          cudaStream_t stream) {
  check_cuda(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values,
                                             static_cast<int>(count), 0, bits, stream),
             "cub::DeviceRadixSort::SortPairs");
}

/// Sums, or writes the size of the scratch memory to `bytes` where `scratch` is null.
void sum(std::byte* scratch, std::size_t& bytes, std::int32_t* numbers, std::int64_t count,
         cudaStream_t stream) {
  check_cuda(cub::DeviceScan::InclusiveSum(scratch, bytes, numbers, numbers, static_cast<int>(count), stream),
             "cub::DeviceScan::InclusiveSum");
}

}  // namespace

template <class Key>
std::size_t sort_scratch_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  sort<Key>(nullptr, bytes, nullptr, nullptr, nullptr, nullptr, count, sizeof(Key) * 8, nullptr);
  return bytes;
}

std::size_t sum_scratch_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  sum(nullptr, bytes, nullptr, count, nullptr);
  return bytes;
}

template <class Key>
void sort_pairs(const SortScratch& scratch, const Key* keys, Key* sorted_keys, const std::int32_t* values,
                std::int32_t* sorted_values, std::int64_t count, int bits, CUstream_st* stream) {
  auto bytes = scratch.bytes;
  sort(scratch.data, bytes, keys, sorted_keys, values, sorted_values, count, bits, stream);
}

void sum_in_place(const SortScratch& scratch, std::int32_t* numbers, std::int64_t count,
                  CUstream_st* stream) {
  auto bytes = scratch.bytes;
  sum(scratch.data, bytes, numbers, count, stream);
}

#define SPEEDTORCH_SORT(Key)                                                                         \
  template std::size_t sort_scratch_bytes<Key>(std::int64_t);                                        \
  template void sort_pairs(const SortScratch&, const Key*, Key*, const std::int32_t*, std::int32_t*, \
                           std::int64_t, int, CUstream_st*);
SPEEDTORCH_SORT(std::int32_t)
SPEEDTORCH_SORT(std::int64_t)
#undef SPEEDTORCH_SORT

}  // namespace speedtorch::kernels
