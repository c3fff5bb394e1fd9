/// How a CUDA kernel is launched: what the caller may ask for, and blocks and threads from the device's
/// properties. Pure functions; C++17, and no CUDA header.
#pragma once

#include <algorithm>
#include <cstdint>

#include "speedtorch/kernels/index_errors.h"

namespace speedtorch::kernels {

/// Where memory is: the GPU's own, or the host's, which kernels reach over the link. `ask` lets the call ask
/// the CUDA runtime (below a microsecond, allowed while a graph is captured).
enum class MemoryKind { ask, device, host };

/// What a caller may ask of a launch; the defaults suit a caller who has the device to himself.
struct CudaLaunch {
  /// Streaming multiprocessors to use at most; 0: all. A link needs few. Of a sorted or deduplicated gather
  /// (ordered_rows.h) CUB's sort and scan do not keep to it: they offer no limit.
  int max_sms = 0;
  bool check_indices = true;          ///< false: the caller vouches for them; a bad one is then a wild access
  IndexErrors* errors = nullptr;      ///< where bad indices are counted; null: they are only kept from harm
  MemoryKind from = MemoryKind::ask;  ///< of what is read
  MemoryKind to = MemoryKind::ask;    ///< of what is written
};

constexpr int kBlockThreads = 256;
/// Of a launch with a budget: as many as one multiprocessor takes in a block, so that n blocks can never be
/// on more than n multiprocessors, wherever the scheduler puts them.
constexpr int kBudgetBlockThreads = 1024;

/// What the launch needs to know of a device and a kernel.
struct DeviceShape {
  int sms = 0;            ///< streaming multiprocessors
  int blocks_per_sm = 0;  ///< of kBlockThreads threads of the kernel, that one of them holds at a time
};

struct LaunchShape {
  unsigned blocks;
  unsigned parts;            ///< the grid's second dimension: what the items of long rows are shared out over
  unsigned threads;          ///< the block's first dimension, whole warps
  unsigned block_parts = 1;  ///< and its second: as many parts are in a block

  bool operator==(const LaunchShape& other) const {
    return blocks == other.blocks && parts == other.parts && threads == other.threads &&
           block_parts == other.block_parts;
  }
};

constexpr std::int64_t kMostParts = 65'535;  // of a grid's second dimension

/// Blocks for `threads` threads of work in each of `parts`: no more than run at once, for the kernels stride
/// over the rest.
/// - without a budget, blocks of 256 up to what the device holds: small batches spread over all of it;
/// - few long rows leave a block's other warps to other parts: of one row of 28 MiB one warp of eight had
///   work;
/// - with `max_sms`, blocks of 1024 and at most one for each multiprocessor of the budget. A warp with 4
///   loads of 512 bytes in flight has 2 KiB, such a block 64 KiB: a PCIe 5 link needs 36-72 KiB in flight
///   (bandwidth times round trip), so a budget of 2 to 8 is meant to fill it.
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
