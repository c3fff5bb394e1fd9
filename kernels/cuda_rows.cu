// The thin part of the CUDA kernels: loads and stores, launches, errors. The arithmetic is in cuda_plan.h.

#include "kernels/cuda_rows.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <type_traits>

#include "kernels/cuda_plan.h"
#include "kernels/error.h"

namespace speedtorch::kernels {
namespace {

constexpr int kBlockThreads = 256;

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw CudaError(call, cudaGetErrorName(status), cudaGetErrorString(status));
}

/// The runtime's own type of a word, for which the load and store intrinsics are overloaded.
template <class Word>
struct Native {
  using type = std::conditional_t<sizeof(Word) == 8, unsigned long long, Word>;
};
template <>
struct Native<Word16> {
  using type = ulonglong2;
};

template <class To, class From>
__device__ To reinterpret_word(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

/// Reads through the read-only path: what is read is not written in the same call.
struct RowMemory {
  template <class Word>
  __device__ Word load(const std::byte* from) const {
    return reinterpret_word<Word>(__ldg(reinterpret_cast<const typename Native<Word>::type*>(from)));
  }

  template <class Word>
  __device__ void store(std::byte* to, Word word) const {
    *reinterpret_cast<Word*>(to) = word;
  }

  __device__ void bad_index(IndexErrors* errors, std::int64_t position) const {
    atomicAdd(&errors->count, 1ULL);
    atomicMin(&errors->first_position, static_cast<unsigned long long>(position));
  }
};

/// Reads and writes what is used once: first to leave the caches.
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

__device__ std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ std::int64_t thread_count() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

template <class Word, class Index>
__global__ void __launch_bounds__(kBlockThreads) move_rows_kernel(LaneMove<Index> move) {
  RowMemory memory;
  move_lane<Word>(move, thread_number(), thread_count(), memory);
}

template <class Word>
__global__ void __launch_bounds__(kBlockThreads)
    stream_copy_kernel(std::byte* to, const std::byte* from, CopyPlan plan) {
  StreamingMemory memory;
  copy_lane<Word>(to, from, plan, thread_number(), thread_count(), memory);
}

std::int64_t ask_resident_threads(int device) {
  int processors = 0;
  int threads = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute(cudaDevAttrMultiProcessorCount)");
  check(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device),
        "cudaDeviceGetAttribute(cudaDevAttrMaxThreadsPerMultiProcessor)");
  return static_cast<std::int64_t>(processors) * threads;
}

/// Threads that the current device runs at a time; asked once a device, a race asks twice.
std::int64_t resident_threads() {
  static std::array<std::atomic<std::int64_t>, 64> known{};
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const auto slot = static_cast<std::size_t>(device);
  if (slot >= known.size()) return ask_resident_threads(device);
  std::int64_t threads = known[slot].load(std::memory_order_relaxed);
  if (threads == 0) {
    threads = ask_resident_threads(device);
    known[slot].store(threads, std::memory_order_relaxed);
  }
  return threads;
}

/// Blocks for `threads` threads of work: no more than the device runs at once, for the kernels stride over
/// the rest.
unsigned blocks_for(std::int64_t threads) {
  const std::int64_t most = std::max<std::int64_t>(1, resident_threads() / kBlockThreads);
  const std::int64_t wanted = (threads + kBlockThreads - 1) / kBlockThreads;
  return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, most));
}

/// Calls `launch` with a value of the unsigned type of `width` bytes.
template <class Launch>
void with_word(int width, Launch launch) {
  switch (width) {
    case 1:
      return launch(std::uint8_t{});
    case 2:
      return launch(std::uint16_t{});
    case 4:
      return launch(std::uint32_t{});
    case 8:
      return launch(std::uint64_t{});
    default:
      return launch(Word16{});
  }
}

template <class Index>
void launch_move(const LaneMove<Index>& move, cudaStream_t stream) {
  if (move.count == 0) return;
  const std::int64_t items = (move.items() + kItemsInFlight - 1) / kItemsInFlight;
  const unsigned blocks = blocks_for(items * move.plan.lanes);
  with_word(move.plan.width, [&](auto word) {
    move_rows_kernel<decltype(word), Index><<<blocks, kBlockThreads, 0, stream>>>(move);
  });
  check(cudaGetLastError(), "the launch of move_rows_kernel");
}

template <class Index>
void gather(ConstRows table, const Index* index, std::int64_t count, Rows out, cudaStream_t stream,
            IndexErrors* errors) {
  check_gather_shapes(table, count, out);
  launch_move(LaneMove<Index>{table, out, index, count, Direction::gather, plan_lanes(table, out), errors},
              stream);
}

template <class Index>
void scatter(ConstRows values, const Index* index, std::int64_t count, Rows table, cudaStream_t stream,
             IndexErrors* errors) {
  check_scatter_shapes(values, count, table);
  launch_move(
      LaneMove<Index>{values, table, index, count, Direction::scatter, plan_lanes(values, table), errors},
      stream);
}

}  // namespace

void gather_rows_cuda(ConstRows table, const std::int32_t* index, std::int64_t count, Rows out,
                      CUstream_st* stream, IndexErrors* errors) {
  gather(table, index, count, out, stream, errors);
}

void gather_rows_cuda(ConstRows table, const std::int64_t* index, std::int64_t count, Rows out,
                      CUstream_st* stream, IndexErrors* errors) {
  gather(table, index, count, out, stream, errors);
}

void scatter_rows_cuda(ConstRows values, const std::int32_t* index, std::int64_t count, Rows table,
                       CUstream_st* stream, IndexErrors* errors) {
  scatter(values, index, count, table, stream, errors);
}

void scatter_rows_cuda(ConstRows values, const std::int64_t* index, std::int64_t count, Rows table,
                       CUstream_st* stream, IndexErrors* errors) {
  scatter(values, index, count, table, stream, errors);
}

void stream_copy_cuda(std::byte* to, const std::byte* from, std::int64_t bytes, CUstream_st* stream) {
  if (bytes < 0) throw ShapeError("a copy of " + std::to_string(bytes) + " bytes: the count is negative");
  if (bytes == 0) return;
  const CopyPlan plan = plan_copy(to, from, bytes);
  const unsigned blocks = blocks_for((plan.words + kItemsInFlight - 1) / kItemsInFlight);
  with_word(plan.width, [&](auto word) {
    stream_copy_kernel<decltype(word)><<<blocks, kBlockThreads, 0, stream>>>(to, from, plan);
  });
  check(cudaGetLastError(), "the launch of stream_copy_kernel");
}

}  // namespace speedtorch::kernels
