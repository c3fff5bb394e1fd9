/// The CUDA kernels' plan: the width of each access, the threads that share a row, where rows are cut, and
/// hints for the caches. A pure function of the two sides, tested on the host.
///
// clang-format off
/// | accesses of a row  | threads a row   | why                                                        |
/// |--------------------|-----------------|------------------------------------------------------------|
/// | one (1-16 B)       | 1               | neighbours write neighbours; 4 random rows in flight each  |
/// | 2-32 (32-512 B)    | next power of 2 | the warp's groups have a row each, 4 rows in flight a      |
/// |                    |                 | group: 2 KiB a warp at 64 B, where a block per row has 256 |
/// | 33-256 (to 4 KiB)  | 32              | as many steps as the row needs and no more: 512 B take one |
/// | more               | 32              | cut in equal parts of at most 8 steps (2-4 KiB at 16 B):   |
/// |                    |                 | few long rows still occupy the whole device                |
///
/// | sides                        | width of an access                          | first lane starts at   |
/// |------------------------------|---------------------------------------------|------------------------|
/// | both in device memory        | largest power of 2, to 16, that divides all | the row                |
/// |                              | addresses, strides and the width            |                        |
/// | over the link, one step      | the same                                    | the row: the coalescer |
/// |                              |                                             | cuts one instruction   |
/// |                              |                                             | at the lines anyway    |
/// | over the link, several steps | the same, but at least 4 on the link's side | the 128-byte line left |
/// |                              | (32 lanes x 4 B = a line); narrower on the  | of the row; lanes      |
/// |                              | other side where its alignment asks for it  | outside it are masked  |
// clang-format on
///
/// The link's side decides, because its requests cost most. With the shift, every request except the first
/// and last of a row is a whole line, in a gather (reads) and in a scatter (writes). (A PCIe 5 x16 link gives
/// 54.5 GB/s in requests of 128 bytes, 48.0 in 64, 38.8 in 32.) C++17, and no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "speedtorch/kernels/host_device.h"
#include "speedtorch/kernels/row_view.h"

namespace speedtorch::kernels {

constexpr int kWarpThreads = 32;
/// The maximum of one request over the link, and a line of the GPU's first-level cache.
constexpr int kGpuLineBytes = 128;
/// The narrowest access on the link's side of a row of several steps: those of a warp make a whole line.
constexpr int kLinkWidth = kGpuLineBytes / kWarpThreads;
/// The maximum of steps of a work item: 4 KiB per warp at 16 bytes.
constexpr int kSteps = 8;

/// The side of a movement that lies in host memory.
enum class Link { none, from, to };

/// Hints for the caches, one per kind of row. They are worth a few per cent at best.
/// - `sectors`: device rows shorter than a line; the second-level cache fetches 64 bytes, DRAM's minimum.
/// - `lines`: longer device rows; it fetches a line.
/// - `link_read`: no fetching ahead over the link, where each byte costs. The first-level cache keeps what
///   was read, for the bytes at a row's ends and for the next row.
/// - `link_write`: `lines` for the values; what is written over the link leaves the caches first.
///
/// All but `link_read` bypass the first-level cache, because a row is read once.
enum class Access { sectors, lines, link_read, link_write };

/// How threads share the rows. A group of `lanes()` neighbouring threads moves a row, or a part of a long
/// one. Each group of a warp has its own row.
struct LanePlan {
  int from_width = 1;          ///< bytes of one access to the source: 1, 2, 4, 8 or 16
  int to_width = 1;            ///< the same for the destination; differs only in a shifted movement
  int lane_bits = 0;           ///< log2 of the threads of a row
  Link shift = Link::none;     ///< the side whose lines the lanes start at
  int item_bytes = 1;          ///< of one work item: whole steps of the group
  std::int64_t row_items = 1;  ///< items per row
  Access access = Access::sectors;

  SPEEDTORCH_HOST_DEVICE constexpr int width() const { return from_width > to_width ? from_width : to_width; }
  SPEEDTORCH_HOST_DEVICE constexpr int lanes() const { return 1 << lane_bits; }
  SPEEDTORCH_HOST_DEVICE constexpr int rows_per_warp() const { return kWarpThreads / lanes(); }
};

/// The largest power of two up to `most`, itself a power of two, that divides `bits`: the bitwise or of
/// addresses, strides and widths.
SPEEDTORCH_HOST_DEVICE constexpr int common_width(std::uint64_t bits, int most = 16) {
  const std::uint64_t capped = bits | static_cast<std::uint64_t>(most);
  return static_cast<int>(capped & (~capped + 1));
}

SPEEDTORCH_HOST_DEVICE inline std::uint64_t address_bits(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// Bytes from a line's start to a row's start: the maximum over all rows.
inline int largest_shift(ConstRows rows) {
  const auto stride = static_cast<std::uint64_t>(rows.stride_bytes);
  if (stride % kGpuLineBytes == 0) return static_cast<int>(address_bits(rows.data) % kGpuLineBytes);
  return kGpuLineBytes - common_width(address_bits(rows.data) | stride, kGpuLineBytes);
}

inline Access plan_access(std::int64_t row_bytes, Link link) {
  if (link == Link::from) return Access::link_read;
  if (link == Link::to) return Access::link_write;
  return row_bytes < kGpuLineBytes ? Access::sectors : Access::lines;
}

/// Cuts `accesses` of a row into equal items of at most kSteps steps.
inline void cut_row(LanePlan& plan, std::int64_t accesses) {
  const std::int64_t lanes = plan.lanes();
  const std::int64_t most = lanes * kSteps;
  plan.row_items = (accesses + most - 1) / most;
  const std::int64_t share = (accesses + plan.row_items - 1) / plan.row_items;
  plan.item_bytes = static_cast<int>((share + lanes - 1) / lanes * lanes * plan.width());
}

/// The plan for the widths, bases and strides of both sides, by the tables above.
inline LanePlan plan_lanes(ConstRows from, ConstRows to, Link link) {
  const int width = common_width(address_bits(from.data) | static_cast<std::uint64_t>(from.stride_bytes) |
                                 address_bits(to.data) | static_cast<std::uint64_t>(to.stride_bytes) |
                                 static_cast<std::uint64_t>(from.row_bytes));
  LanePlan plan;
  plan.from_width = plan.to_width = width;
  plan.access = plan_access(from.row_bytes, link);
  std::int64_t accesses = from.row_bytes / width;
  while (plan.lanes() < kWarpThreads && plan.lanes() < accesses) ++plan.lane_bits;
  if (link != Link::none && accesses > kWarpThreads) {
    plan.shift = link;
    if (width < kLinkWidth) (link == Link::from ? plan.from_width : plan.to_width) = kLinkWidth;
    const std::int64_t span = largest_shift(link == Link::from ? from : to) + from.row_bytes;
    accesses = (span + plan.width() - 1) / plan.width();
  }
  cut_row(plan, accesses);
  return plan;
}

/// A contiguous copy: bytes up to the first aligned word of `to`, then words, then the remaining bytes.
struct CopyPlan {
  int width;  ///< bytes of one access, with `from` and `to` aligned to it at the same offset
  std::int64_t head;
  std::int64_t words;
  std::int64_t tail;
};

inline CopyPlan plan_copy(const std::byte* to, const std::byte* from, std::int64_t bytes) {
  CopyPlan plan{};
  plan.width = common_width(address_bits(to) ^ address_bits(from));
  const auto unaligned = static_cast<std::int64_t>(address_bits(to) % static_cast<unsigned>(plan.width));
  const std::int64_t head = unaligned == 0 ? 0 : plan.width - unaligned;
  plan.head = head < bytes ? head : bytes;
  plan.words = (bytes - plan.head) / plan.width;
  plan.tail = bytes - plan.head - plan.words * plan.width;
  return plan;
}

}  // namespace speedtorch::kernels
