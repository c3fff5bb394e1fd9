#include "benchmarks/table_store.h"

#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "harness/fill.h"
#include "speedtorch/shared_memory.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

constexpr std::int64_t fill_block = std::int64_t{1} << 20;
constexpr std::int64_t device_block = std::int64_t{256} << 20;

/// data[0] is byte `begin` of the endless fill.
void fill_host(std::byte* data, std::int64_t begin, std::int64_t end, std::uint64_t seed) {
  const auto blocks = (end - begin + fill_block - 1) / fill_block;
  speedtorch::parallel_for(blocks, 1, [&](std::int64_t first, std::int64_t last) {
    const auto from = begin + first * fill_block, to = std::min(end, begin + last * fill_block);
    harness::fill(data + (from - begin), from, to, seed);
  });
}

}  // namespace

void fill_memory(const speedtorch::Memory& memory, std::int64_t begin, std::int64_t end, std::uint64_t seed) {
  if (memory.on_host()) {
    fill_host(memory.data() + begin, begin, end, seed);
    return;
  }
  auto target = memory.tensor({memory.bytes()}, at::kByte);
  const auto block = at::empty({std::min(device_block, end - begin)}, at::kByte);
  for (auto from = begin; from < end; from += device_block) {
    const auto bytes = std::min(device_block, end - from);
    fill_host(static_cast<std::byte*>(block.data_ptr()), from, from + bytes, seed);
    target.narrow(0, from, bytes).copy_(block.narrow(0, 0, bytes));
  }
}

std::shared_ptr<speedtorch::Memory> TableStore::filled(speedtorch::Placement placement, std::int64_t bytes,
                                                       at::Device device, bool shared) {
  auto& block = blocks_[{placement, device.str()}];
  if (block && block->bytes() >= bytes && (block->shared_fd() >= 0) == shared) return block;
  block.reset();  // first free, then allocate
  block = shared ? speedtorch::allocate_shared(placement, bytes, device)
                 : speedtorch::allocate(placement, bytes, device, table_folder());
  fill_memory(*block, 0, bytes, seed_);
  if (placement == speedtorch::Placement::mapped) {
    // Clean pages: otherwise the kernel writes them back in the middle of the samples.
    ::msync(block->data(), static_cast<std::size_t>(bytes), MS_SYNC);
  }
  return block;
}

void TableStore::keep_only(speedtorch::Placement placement) {
  std::erase_if(blocks_, [&](const auto& entry) { return entry.first.first != placement; });
}

std::string table_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

}  // namespace stbench
