#include "benchmarks/tables/table_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "benchmarks/tables/row_check.h"
#include "speedtorch/error.h"
#include "speedtorch/files/file_rows.h"
#include "speedtorch/memory/shared_memory.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

constexpr std::int64_t fill_block = std::int64_t{1} << 20;
constexpr std::int64_t file_block = std::int64_t{8} << 20;
constexpr std::int64_t filled_block = std::int64_t{256} << 20;
/// A check of a whole block reads some 6 GB/s on two cores.
constexpr std::int64_t small_table_bytes = std::int64_t{1} << 30;
constexpr std::int64_t compared_bytes = 4096;

/// data[0] is byte `begin` of the content.
void fill_host(std::byte* data, std::int64_t begin, std::int64_t end, const Content& content) {
  const auto blocks = (end - begin + fill_block - 1) / fill_block;
  speedtorch::parallel_for(blocks, 1, [&](std::int64_t first, std::int64_t last) {
    const auto from = begin + first * fill_block, to = std::min(end, begin + last * fill_block);
    content.write(data + (from - begin), from, to);
  });
}

/// Writes in large pieces, so that the pages in memory are large, too; through a mapping they would have 4
/// KiB. Pages are clean in the end, or the kernel would write them back during samples.
void fill_file(int fd, std::int64_t bytes, const Content& content) {
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(file_block, bytes)));
  for (std::int64_t begin = 0; begin < bytes; begin += file_block) {
    const auto end = std::min(bytes, begin + file_block);
    fill_host(block.data(), begin, end, content);
    for (auto at = begin; at < end;) {
      const auto written = ::pwrite(fd, block.data() + (at - begin), static_cast<std::size_t>(end - at), at);
      if (written < 0 && errno != EINTR)
        throw speedtorch::FileError(std::string("cannot write the mapped table's file: ") +
                                    std::strerror(errno));
      at += std::max<std::int64_t>(0, written);
    }
  }
  if (::fdatasync(fd) != 0)
    throw speedtorch::FileError(std::string("cannot write the mapped table's file: ") + std::strerror(errno));
}

}  // namespace

void fill_memory(const speedtorch::Memory& memory, std::int64_t begin, std::int64_t end, Content content) {
  if (memory.on_host()) {
    fill_host(memory.data() + begin, begin, end, content);
    return;
  }
  auto target = memory.tensor({memory.bytes()}, at::kByte);
  const auto block = at::empty({std::min(filled_block, end - begin)}, at::kByte);
  for (auto from = begin; from < end; from += filled_block) {
    const auto bytes = std::min(filled_block, end - from);
    fill_host(static_cast<std::byte*>(block.data_ptr()), from, from + bytes, content);
    target.narrow(0, from, bytes).copy_(block.narrow(0, 0, bytes));
  }
}

std::shared_ptr<speedtorch::Memory> TableStore::filled(speedtorch::Placement placement, std::int64_t bytes,
                                                       at::Device device, bool shared) {
  auto& block = blocks_[{placement, device.str(), true}];
  const auto serves = [&] {
    return block.memory->bytes() >= bytes && (block.memory->shared_fd() >= 0) == shared;
  };
  if (block.memory && serves()) return block.memory;
  check(block);
  block = {};  // first free, then allocate
  block.memory = shared ? speedtorch::allocate_shared(placement, bytes, device)
                        : speedtorch::allocate(placement, bytes, device, table_folder());
  block.filled = bytes;
  if (block.memory->file_fd() >= 0) {
    fill_file(block.memory->file_fd(), bytes, content_);
  } else {
    fill_memory(*block.memory, 0, bytes, content_);
  }
  return block.memory;
}

std::shared_ptr<speedtorch::Memory> TableStore::mapped_file() {
  auto& block = blocks_[{speedtorch::Placement::mapped, at::Device(at::kCPU).str(), false}];
  if (!block.memory) block.memory = content_.file()->map();
  block.filled = block.memory->bytes();
  return block.memory;
}

void TableStore::keep_only(speedtorch::Placement placement) {
  for (auto& [key, block] : blocks_) {
    if (std::get<0>(key) != placement) check(block);
  }
  std::erase_if(blocks_, [&](const auto& entry) { return std::get<0>(entry.first) != placement; });
}

void TableStore::use(const speedtorch::Memory& memory, const std::vector<reports::Identity>& users) {
  auto& known = blocks_.at(key_of(memory)).users;
  known.insert(known.end(), users.begin(), users.end());
}

bool TableStore::is_small(const speedtorch::Memory& memory) const {
  return blocks_.at(key_of(memory)).filled <= small_table_bytes;
}

void TableStore::checked(const speedtorch::Memory& memory, std::int64_t bytes, const harness::Check& damage) {
  auto& block = blocks_.at(key_of(memory));
  if (damage.mismatches > 0) {
    damage_.push_back({std::exchange(block.users, {}), damage});
  } else if (bytes > block.filled - compared_bytes) {
    block.users.clear();
  }
}

void TableStore::check_all() {
  for (auto& [key, block] : blocks_) check(block);
}

void TableStore::check(Block& block) {
  if (block.users.empty()) return;
  harness::Check found;
  try {
    const bool sampled = block.memory->file_fd() >= 0 && block.filled > most_whole_;
    found =
        sampled ? compare_sample(*block.memory, block.filled) : compare_whole(*block.memory, block.filled);
  } catch (const std::exception& error) {
    found = {1, 1, std::string("it cannot be read: ") + error.what()};
  }
  auto users = std::exchange(block.users, {});
  if (found.mismatches > 0) damage_.push_back({std::move(users), found});
}

/// As rows of a page, and the rest.
harness::Check TableStore::compare_whole(const speedtorch::Memory& memory, std::int64_t bytes) const {
  const auto pages = bytes / compared_bytes, rest = bytes % compared_bytes;
  harness::Check found;
  if (pages > 0)
    found = RowBytes(memory, pages, compared_bytes).check_all(content_, "table in rows of 4096 bytes");
  if (rest > 0 && memory.on_host()) {
    const bool differs =
        content_.first_mismatch(memory.data() + pages * compared_bytes, pages * compared_bytes, rest) >= 0;
    merge(found, {1, differs ? 1 : 0, differs ? "the end of the table" : ""});
  }
  return found;
}

/// Checks evenly spread pages, the first and the last included. Uses pread and advice, because the mapping
/// would read ahead nearly all of the file.
harness::Check TableStore::compare_sample(const speedtorch::Memory& memory, std::int64_t bytes) const {
  constexpr std::int64_t most = 100'000, a_part = 10'000;
  const auto pages = bytes / compared_bytes, count = std::min(most, pages);
  speedtorch::FileRows rows({memory.file_fd(), memory.file_offset(), pages, compared_bytes},
                            {.engine = speedtorch::FileEngine::advice, .copy_cached = false});
  harness::Check found;
  for (std::int64_t begin = 0; begin < count; begin += a_part) {
    std::vector<std::int64_t> named;
    for (auto k = begin; k < std::min(count, begin + a_part); ++k)
      named.push_back(
          count == 1 ? 0
                     : static_cast<std::int64_t>(static_cast<double>(k) / static_cast<double>(count - 1) *
                                                 static_cast<double>(pages - 1)));
    auto read = at::empty({std::ssize(named), compared_bytes}, at::kByte);
    rows.gather(at::tensor(named, at::kLong), read);
    merge(found, check_rows(read, named, compared_bytes, content_, "table in rows of 4096 bytes"));
  }
  return found;
}

std::optional<std::int64_t> table_folder_free() {
  struct statvfs found {};
  if (::statvfs(table_folder().c_str(), &found) != 0) return std::nullopt;
  return static_cast<std::int64_t>(found.f_bavail * found.f_frsize);
}

std::string table_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

}  // namespace stbench
