#include "speedtorch/files/cache_writer.h"

#include <c10/util/Exception.h>
#include <sys/file.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/system/new_file.h"

namespace speedtorch {
namespace {

/// The size of a journal, whose rows are written twice.
constexpr std::int64_t kMostJournalBytes = 4 << 20;

/// The rows to write, ascending, each with the last of its values.
template <class Index>
std::vector<RowBytes> rows_to_write(const Index* rows, std::int64_t count, const std::byte* values,
                                    std::int64_t row_bytes) {
  std::vector<RowBytes> all;
  for (std::int64_t i = 0; i < count; ++i)
    all.push_back({static_cast<std::int64_t>(rows[i]), values + i * row_bytes});
  std::ranges::sort(all, [](const auto& a, const auto& b) {
    return std::pair(a.row, a.bytes) > std::pair(b.row, b.bytes);
  });
  const auto repeated = std::ranges::unique(all, {}, &RowBytes::row);  // keeps the first, which is the last
  all.erase(repeated.begin(), repeated.end());
  std::ranges::reverse(all);
  return all;
}

ArrayFile locked(const std::string& path, ArrayFile file) {
  if (::flock(file.file.get(), LOCK_EX | LOCK_NB) != 0)
    refuse_path(path, "cannot be written, as another RowCache writes to it");
  return file;
}

}  // namespace

bool is_unlocked(int fd) {
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) return false;
  ::flock(fd, LOCK_UN);
  return true;
}

CacheWriter::CacheWriter(const std::string& path, ArrayFile file, bool back)
    : file_(locked(path, std::move(file))), table_(file_table(file_)), writer_(table_, file_.name) {
  RowJournal::recover(path, table_);
  if (back) journal_.emplace(path, table_);
}

void CacheWriter::scatter(CacheSlots& cache, const at::Tensor& index, const at::Tensor& values) {
  const auto* from = static_cast<const std::byte*>(values.const_data_ptr());
  with_index(index, [&](const auto* rows) {
    journal_ ? keep(cache, rows, index.numel(), from)
             : write_through(cache, rows_to_write(rows, index.numel(), from, table_.row_bytes));
  });
}

/// Rows that a failed write leaves unknown lose their slots.
void CacheWriter::write_through(CacheSlots& cache, const std::vector<RowBytes>& rows) const {
  const std::lock_guard lock(cache.held());
  auto& sets = cache.sets();
  for (const auto& one : rows) sets.note_write(one.row);
  try {
    writer_.write(rows);
  } catch (const FileError&) {
    for (const auto& one : rows) sets.drop(one.row);
    throw;
  }
  for (const auto& one : rows) {
    if (const auto slot = sets.slot_of(one.row); slot >= 0) cache.copy_row(cache.row_at(slot), one.bytes);
  }
}

/// Dirty rows are never replaced. If a set is full of them, all dirty rows are written at once: that takes
/// less time than writing a row of each set when it is in the way.
template <class Index>
void CacheWriter::keep(CacheSlots& cache, const Index* rows, std::int64_t count, const std::byte* values) {
  const std::lock_guard lock(cache.held());
  auto& sets = cache.sets();
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + CacheSlots::kAhead < count)
      sets.prefetch(static_cast<std::int64_t>(rows[i + CacheSlots::kAhead]));
    const auto row = static_cast<std::int64_t>(rows[i]);
    auto slot = sets.slot_of(row);
    if (slot < 0) slot = sets.place(row);
    if (slot < 0) {
      write_back(cache);
      slot = sets.place(row);
    }
    cache.copy_row(cache.row_at(slot), values + i * table_.row_bytes);
    sets.set_dirty(slot, true);
    sets.note_write(row);
  }
}

/// Writes all dirty rows to the file. The caller holds the cache's lock.
void CacheWriter::write_back(CacheSlots& cache) {
  auto& sets = cache.sets();
  std::vector<RowBytes> dirty;
  for (std::int64_t slot = 0; slot < sets.slots(); ++slot) {
    if (sets.is_dirty(slot)) dirty.push_back({sets.row_in(slot), cache.row_at(slot)});
  }
  std::ranges::sort(dirty, {}, &RowBytes::row);
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, kMostJournalBytes / table_.row_bytes));
  for (std::span<const RowBytes> left(dirty); !left.empty();) {
    const auto rows = left.first(std::min(most, left.size()));
    journal_->store(rows);
    writer_.write(rows);
    journal_->clear();
    for (const auto& one : rows) sets.set_dirty(sets.slot_of(one.row), false);
    written_back_.fetch_add(std::ssize(rows), std::memory_order_relaxed);
    left = left.subspan(rows.size());
  }
}

void CacheWriter::flush(CacheSlots& cache) {
  if (journal_) {
    const std::lock_guard lock(cache.held());
    write_back(cache);
  }
  writer_.sync();
}

void CacheWriter::close(CacheSlots& cache) {
  if (!journal_) return;
  try {
    write_back(cache);
    journal_->remove();
  } catch (const FileError& error) {
    TORCH_WARN("a RowCache could not write back its rows, which are lost: ", error.what());
  }
}

}  // namespace speedtorch
