/// How a CUDA kernel is launched: the caller's options, and blocks and threads from the device's properties.
/// Pure functions; C++17, and no CUDA header.
#pragma once

#include <algorithm>
#include <cstdint>

#include "speedtorch/kernels/index_errors.h"

namespace speedtorch::kernels {

/// The GPU's own memory, or the host's, which kernels reach over the link. `ask` lets the call ask the CUDA
/// runtime (below a microsecond, allowed while a graph is captured).
enum class MemoryKind { ask, device, host };

/// A caller's options for a launch. The defaults suit a caller that has the device to itself.
struct CudaLaunch {
  /// The maximum number of streaming multiprocessors; 0: all. A link needs few. In a sorted or deduplicated
  /// gather (ordered_rows.h) it does not limit CUB's sort and scan, which offer no limit.
  int max_sms = 0;
  bool check_indices = true;  ///< false: the caller guarantees valid indices; an invalid one is a wild access
  IndexErrors* errors = nullptr;      ///< counts invalid indices; null: they do no harm and are not counted
  MemoryKind from = MemoryKind::ask;  ///< of the source
  MemoryKind to = MemoryKind::ask;    ///< of the destination
};

constexpr int kBlockThreads = 256;
/// The block size of a launch with a budget: as many threads as a multiprocessor takes in a block. So n
/// blocks never occupy more than n multiprocessors, wherever the scheduler puts them.
constexpr int kBudgetBlockThreads = 1024;

/// The facts of a device and a kernel that a launch needs.
struct DeviceShape {
  int sms = 0;            ///< streaming multiprocessors
  int blocks_per_sm = 0;  ///< resident blocks of kBlockThreads threads of the kernel per multiprocessor
};

struct LaunchShape {
  unsigned blocks;
  unsigned parts;            ///< the grid's second dimension, over which the items of long rows are divided
  unsigned threads;          ///< the block's first dimension, whole warps
  unsigned block_parts = 1;  ///< the block's second dimension: parts per block

  bool operator==(const LaunchShape& other) const {
    return blocks == other.blocks && parts == other.parts && threads == other.threads &&
           block_parts == other.block_parts;
  }
};

constexpr std::int64_t kMostParts = 65'535;  // of a grid's second dimension

/// Blocks for `threads` threads of work in each of `parts`: at most as many as run at once, because the
/// kernels stride over the rest.
/// - Without a budget: blocks of 256, as many as the device holds, so that small batches spread over all of
///   it.
/// - With few long rows: a block's other warps take other parts. (Otherwise one warp of eight had work for
///   one row of 28 MiB.)
/// - With `max_sms`: blocks of 1024, at most one per multiprocessor of the budget. A warp with 4 loads of 512
///   bytes in flight has 2 KiB, such a block 64 KiB. A PCIe 5 link needs 36-72 KiB in flight (bandwidth times
///   round trip), so a budget of 2 to 8 should fill it.
inline LaunchShape plan_launch(std::int64_t threads, std::int64_t parts, DeviceShape device, int max_sms) {
  const bool capped = max_sms > 0;
  const std::int64_t block = capped ? kBudgetBlockThreads : kBlockThreads;
  const std::int64_t held =
      capped ? std::min(max_sms, device.sms) : static_cast<std::int64_t>(device.sms) * device.blocks_per_sm;
  const std::int64_t most = std::max<std::int64_t>(1, held);
  const std::int64_t wanted = threads / block + (threads % block != 0 ? 1 : 0);
  const std::int64_t all_parts = std::max<std::int64_t>(1, parts);
  constexpr std::int64_t warp = 32;
  const std::int64_t warps =
      threads < block ? std::max<std::int64_t>(1, (threads + warp - 1) / warp) : block / warp;
  const std::int64_t block_parts = std::min(block / (warps * warp), all_parts);
  const std::int64_t side = std::min({(all_parts + block_parts - 1) / block_parts, most, kMostParts});
  const std::int64_t blocks = std::clamp<std::int64_t>(wanted, 1, most / side);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(side),
          static_cast<unsigned>(block_parts == 1 ? block : warps * warp), static_cast<unsigned>(block_parts)};
}

}  // namespace speedtorch::kernels
