#include "benchmarks/transfer/cold.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/system/page_cache.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

constexpr std::int64_t times_the_cache = 2;
/// For systems that do not tell the size of their caches.
constexpr std::int64_t least_walk = std::int64_t{64} << 20;
constexpr std::int64_t line_bytes = 64;
/// The part of the pages that may stay, since another process may be reading one of them.
constexpr double most_resident = 0.001;
/// Pages that another processor is adding to the cache do not leave at the first request. Pauses double; it
/// gives up after 0.6 s.
constexpr auto first_pause = std::chrono::milliseconds(5);
constexpr auto last_pause = 64 * first_pause;

/// From the page on in which the table begins.
speedtorch::MappedBytes file_of(const speedtorch::Memory& table) {
  const auto head = table.file_offset() % ::sysconf(_SC_PAGESIZE);
  return {table.data() - head, table.bytes() + head, table.file_fd(), table.file_offset() - head};
}

/// True if the file exists in memory only, so that waiting is useless.
bool lives_in_memory(int fd) {
  struct statfs kind {};
  return ::fstatfs(fd, &kind) == 0 && (kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC);
}

}  // namespace

CacheWalk::CacheWalk(std::int64_t last_level_bytes)
    : others_(static_cast<std::size_t>(std::max(least_walk, times_the_cache * last_level_bytes))) {}

void CacheWalk::walk() {
  speedtorch::parallel_for(std::ssize(others_) / line_bytes, 1, [&](std::int64_t begin, std::int64_t end) {
    volatile std::byte* others = others_.data();
    for (auto k = begin; k < end; ++k) others[k * line_bytes] = others[k * line_bytes];
  });
}

Cold::Cold(std::shared_ptr<speedtorch::Memory> table, at::Device model, std::shared_ptr<CacheWalk> caches)
    : table_(std::move(table)), caches_(std::move(caches)) {
  if (!model.is_cuda()) return;
  const auto bytes = times_the_cache * speedtorch::cuda_cache_bytes(model);
  device_bytes_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(model));
}

void Cold::evict() {
  if (table_->file_fd() >= 0) evict_file();
  caches_->walk();
  if (device_bytes_.defined()) device_bytes_.fill_(0);
}

void Cold::evict_file() const {
  double resident = 1;
  for (auto pause = first_pause;; pause *= 2) {
    speedtorch::evict(file_of(*table_));
    resident = speedtorch::resident_fraction(table_->data(), table_->bytes());
    if (resident <= most_resident) return;
    if (pause > last_pause || lives_in_memory(table_->file_fd())) break;
    std::this_thread::sleep_for(pause);
  }
  throw CannotEvict(fmt::format(
      "cold rows need a file that leaves memory, and {:.0f} % of it stays: the file system of TMPDIR or "
      "/var/tmp keeps its files there (tmpfs), or others use the file; set TMPDIR to a folder on a disk",
      resident * 100));
}

void make_warm(const speedtorch::Memory& table) {
  if (table.file_fd() >= 0) speedtorch::make_resident(file_of(table));
}

}  // namespace stbench
