#include "speedtorch/files/row_cache.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/files/array_file.h"
#include "speedtorch/files/cache_sets.h"
#include "speedtorch/files/row_writer.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kLookUpGrain = 8 << 10;  ///< look-ups for which a second thread is woken
constexpr std::int64_t kCopyGrain = 1 << 10;    ///< rows
/// From the prefetch of a missed row's set to its use.
constexpr std::size_t kMissedAhead = 8;
/// More sets would stay empty: with four rows per set of twelve slots, 3 in 10,000 rows find theirs full.
constexpr std::int64_t kFewestRowsPerSet = 4;

/// Prefers neither side, unlike std::shared_mutex alone, with which a few threads that read in turn keep a
/// writer waiting for ever.
class FairSharedMutex {
 public:
  void lock() {
    const std::lock_guard turn(turn_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    const std::lock_guard turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
};

/// A look-up that found nothing: the row, its set's version at that moment, and its position in the result.
struct Missed {
  std::int64_t row;
  std::int64_t position;
  std::uint32_t version;
};

/// A missed row, and those of its look-ups in a sorted list of Missed. `place` is where it is in a buffer.
struct MissedRow {
  std::int64_t row;
  std::uint32_t version;
  std::size_t first, last;
  std::int64_t place;
};

std::vector<MissedRow> missed_rows(std::vector<Missed>& missed) {
  std::ranges::sort(missed, {}, &Missed::row);
  std::vector<MissedRow> rows;
  for (std::size_t k = 0; k < missed.size(); ++k) {
    if (!rows.empty() && rows.back().row == missed[k].row) {
      rows.back().last = k + 1;
    } else {
      rows.push_back({missed[k].row, missed[k].version, k, k + 1, 0});
    }
  }
  return rows;
}

/// Rows read before they are looked up.
struct Batch {
  std::vector<MissedRow> rows;  ///< ascending
  at::Tensor index;             ///< until it is read
  at::Tensor bytes;
  std::exception_ptr failed;
  bool done = false;
};

std::int64_t sets_within(const FileTable& table, std::int64_t bytes) {
  const auto each = CacheSets::bytes(1, table.rows) + CacheSets::kWays * table.row_bytes;
  if (bytes < each) {
    throw OptionError("a row cache of " + std::to_string(bytes) + " bytes is too small: twelve rows of " +
                      std::to_string(table.row_bytes) + " bytes and their bookkeeping take " +
                      std::to_string(each));
  }
  return std::min({bytes / each, table.rows / kFewestRowsPerSet + 1,
                   std::numeric_limits<std::int32_t>::max() / CacheSets::kWays});
}

/// The file stays open as long as the cache, because each thread that reads at once has a FileRows.
Descriptor opened_again(const FileTable& table) {
  Descriptor copy(::fcntl(table.fd, F_DUPFD_CLOEXEC, 0));
  if (copy.valid()) return copy;
  const std::string answer = std::strerror(errno);
  throw FileError("cannot read rows of the file: descriptor " + std::to_string(table.fd) + ": " + answer);
}

FileTable with_descriptor(FileTable table, int fd) {
  table.fd = fd;
  return table;
}

void require_rows(const FileTable& table) {
  if (table.row_bytes <= 0)
    throw ShapeError("a row cache needs rows of 1 byte or more, not of " + std::to_string(table.row_bytes));
}

/// Of a journal, whose rows are written twice.
constexpr std::int64_t kMostJournalBytes = 4 << 20;

void check_values(const at::Tensor& index, const at::Tensor& values, std::int64_t row_bytes) {
  check_file_index(index);
  if (!values.device().is_cpu())
    throw PlacementError("the values of rows of a file must be on cpu; they are on " + values.device().str());
  if (values.is_contiguous() && values.dim() > 0 && values.size(0) == index.numel() &&
      static_cast<std::int64_t>(values.nbytes()) == index.numel() * row_bytes)
    return;
  throw ShapeError("the values are " + layout_of(values) + "; " + std::to_string(index.numel()) +
                   " contiguous rows of " + std::to_string(row_bytes) + " bytes are needed");
}

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

/// A file that a RowCache writes to, with the rows that a killed writer had left in its journal.
struct WrittenFile {
  WrittenFile(const std::string& path, ArrayFile opened, CacheWrites how)
      : file((lock(path, opened.file.get()), std::move(opened))),
        table(file_table(file)),
        recovered(RowJournal::recover(path, table)),
        writer(table, file.name) {
    if (how == CacheWrites::back) journal.emplace(path, table);
  }
  static void lock(const std::string& path, int fd) {
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0)
      refuse_path(path, "cannot be written, as another RowCache writes to it");
  }

  ArrayFile file;
  FileTable table;
  std::int64_t recovered;  ///< rows
  FileRowWriter writer;
  std::optional<RowJournal> journal;
};

/// True if no RowCache writes to the file.
bool is_unlocked(int fd) {
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) return false;
  ::flock(fd, LOCK_UN);
  return true;
}
}  // namespace

double RowCacheStatistics::hit_rate() const {
  return hits + misses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
}

class RowCache::Work {
 public:
  /// @param file null if the cache does not write
  Work(const FileTable& table, const RowCacheOptions& options, std::unique_ptr<WrittenFile> file = nullptr)
      : file_(std::move(file)),
        descriptor_((require_rows(table), opened_again(table))),
        table_(with_descriptor(table, descriptor_.get())),
        options_(options.reads),
        first_reader_(std::make_unique<Reader>(table_, options_)),
        sets_count_(sets_within(table, options.bytes)),
        memory_(
            allocate(Placement::hugepage, sets_bytes() + sets_count_ * CacheSets::kWays * table.row_bytes)),
        sets_((std::memset(memory_->data(), 0, static_cast<std::size_t>(sets_bytes())), memory_->data()),
              sets_count_, table.rows) {
    idle_.push_back(std::move(first_reader_));
  }
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void gather(const at::Tensor& index, at::Tensor& out);
  void prefetch(const at::Tensor& index);
  void scatter(const at::Tensor& index, const at::Tensor& values);
  void flush();
  [[nodiscard]] RowCacheStatistics statistics();

 private:
  /// What a call needs for itself. Calls take one each and return it.
  struct Reader {
    Reader(const FileTable& table, const FileRowsOptions& options) : rows(table, options) {}
    FileRows rows;
    std::vector<std::int32_t> slots;
    std::vector<Missed> missed;
  };
  class Lease;

  [[nodiscard]] std::int64_t sets_bytes() const { return CacheSets::bytes(sets_count_, table_.rows); }
  [[nodiscard]] std::byte* row_at(std::int64_t slot) const {
    return memory_->data() + sets_bytes() + slot * table_.row_bytes;
  }
  void copy_row(std::byte* to, const std::byte* from) const {
    std::memcpy(to, from, static_cast<std::size_t>(table_.row_bytes));
  }
  template <class Index>
  void check(const Index* rows, std::int64_t count) const;
  template <class Index>
  void gather_into(const Index* rows, std::int64_t count, std::byte* out);
  template <class Index>
  [[nodiscard]] std::int64_t look_up(const Index* rows, std::int64_t count, std::int32_t* slots);
  template <class Index>
  void note_missed(const Index* rows, std::int64_t count, Reader& reader) const;
  void bring(Reader& reader, Batch* prefetched, std::byte* out);
  [[nodiscard]] at::Tensor read(FileRows& file, std::vector<MissedRow>& rows, const Batch* prefetched);
  void admit(FileRows& file, const std::vector<MissedRow>& rows, std::byte* bytes);
  void renew(FileRows& file, const std::vector<MissedRow>& rows, std::byte* bytes) const;

  [[nodiscard]] std::shared_ptr<Batch> take_prefetched();
  void await(const std::shared_ptr<Batch>& batch);
  void start_worker();
  void serve();
  void read_ahead(Batch& batch);
  template <class Index>
  void note_absent(const Index* rows, std::int64_t count, Reader& reader);

  void write_through(const std::vector<RowBytes>& rows);
  template <class Index>
  void keep(const Index* rows, std::int64_t count, const std::byte* values);
  void write_back();

  std::unique_ptr<WrittenFile> file_;
  Descriptor descriptor_;
  FileTable table_;
  FileRowsOptions options_;
  std::unique_ptr<Reader> first_reader_;  ///< checks the table before memory is allocated
  std::int64_t sets_count_;
  std::shared_ptr<Memory> memory_;  ///< the sets and then the slots
  FairSharedMutex held_;            ///< guards the sets and slots; look-ups and copies from slots share it
  CacheSets sets_;
  std::atomic<std::int64_t> hits_ = 0, misses_ = 0, reads_ = 0, prefetched_rows_ = 0, written_back_ = 0;

  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<Reader>> idle_;

  std::mutex ahead_mutex_;  ///< guards the members below and `done` of each Batch
  std::condition_variable ahead_;
  std::map<std::thread::id, std::shared_ptr<Batch>> prefetched_;  ///< by the thread that asked for it
  std::deque<std::shared_ptr<Batch>> queue_;
  bool ends_ = false;
  std::vector<int> cpus_{pinned_cpus().begin(), pinned_cpus().end()};
  const pid_t owner_ = ::getpid();
  std::thread worker_;
};

class RowCache::Work::Lease {
 public:
  explicit Lease(Work& work) : work_(work) {
    {
      const std::lock_guard lock(work.idle_mutex_);
      if (!work.idle_.empty()) {
        reader_ = std::move(work.idle_.back());
        work.idle_.pop_back();
      }
    }
    if (!reader_) reader_ = std::make_unique<Reader>(work.table_, work.options_);
  }
  ~Lease() {
    const std::lock_guard lock(work_.idle_mutex_);
    work_.idle_.push_back(std::move(reader_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Reader& operator*() const { return *reader_; }

 private:
  Work& work_;
  std::unique_ptr<Reader> reader_;
};

template <class Index>
void RowCache::Work::check(const Index* rows, std::int64_t count) const {
  kernels::check_indices(rows, count, table_.rows, kLookUpGrain, parallel_for);
}

void RowCache::Work::gather(const at::Tensor& index, at::Tensor& out) {
  if (is_lazy(index)) return gather(resolved(index), out);
  check_file_operands(index, out, table_.row_bytes);
  auto* to = static_cast<std::byte*>(out.data_ptr());
  with_index(index, [&](const auto* rows) { gather_into(rows, index.numel(), to); });
  bump_version(out);
}

/// Missed rows are gathered from slot 0 first, which costs little, so that one gather takes all slots.
template <class Index>
void RowCache::Work::gather_into(const Index* rows, std::int64_t count, std::byte* out) {
  check(rows, count);
  const auto prefetched = take_prefetched();
  if (count == 0) return;
  const Lease lease(*this);
  auto& reader = *lease;
  reader.slots.resize(std::max(reader.slots.size(), static_cast<std::size_t>(count)));
  reader.missed.clear();
  const auto width = table_.row_bytes;
  {
    const std::shared_lock lock(held_);
    if (look_up(rows, count, reader.slots.data()) > 0) note_missed(rows, count, reader);
    kernels::gather_rows({row_at(0), sets_.slots(), width, width}, reader.slots.data(), count,
                         {out, count, width, width}, parallel_for);
  }
  const auto missed = std::ssize(reader.missed);
  hits_.fetch_add(count - missed, std::memory_order_relaxed);
  misses_.fetch_add(missed, std::memory_order_relaxed);
  if (missed == 0) return;
  if (prefetched) await(prefetched);
  bring(reader, prefetched.get(), out);
}

template <class Index>
std::int64_t RowCache::Work::look_up(const Index* rows, std::int64_t count, std::int32_t* slots) {
  if (count <= kLookUpGrain) return sets_.find(rows, count, slots);
  std::atomic<std::int64_t> missing = 0;
  parallel_for(count, kLookUpGrain, [&](std::int64_t begin, std::int64_t end) {
    missing.fetch_add(sets_.find(rows + begin, end - begin, slots + begin), std::memory_order_relaxed);
  });
  return missing.load();
}

template <class Index>
void RowCache::Work::note_missed(const Index* rows, std::int64_t count, Reader& reader) const {
  for (std::int64_t i = 0; i < count; ++i) {
    auto& slot = reader.slots[static_cast<std::size_t>(i)];
    if (slot >= 0) continue;
    const auto row = static_cast<std::int64_t>(rows[i]);
    reader.missed.push_back({row, i, sets_.version(row)});
    slot = 0;
  }
}

/// Reads the missed rows, copies them to `out`, and admits them.
void RowCache::Work::bring(Reader& reader, Batch* prefetched, std::byte* out) {
  auto rows = missed_rows(reader.missed);
  const auto bytes = read(reader.rows, rows, prefetched);
  auto* const from = static_cast<std::byte*>(bytes.data_ptr());
  admit(reader.rows, rows, from);
  parallel_for(std::ssize(rows), kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    for (auto k = begin; k < end; ++k) {
      const auto& one = rows[static_cast<std::size_t>(k)];
      for (auto entry = one.first; entry < one.last; ++entry)
        copy_row(out + reader.missed[entry].position * table_.row_bytes, from + one.place * table_.row_bytes);
    }
  });
}

/// Returns the rows' bytes and sets their places. What `prefetched` has, unless it was written since, is not
/// read again.
at::Tensor RowCache::Work::read(FileRows& file, std::vector<MissedRow>& rows, const Batch* prefetched) {
  auto bytes = at::empty({std::ssize(rows), table_.row_bytes}, at::kByte);
  auto named = at::empty({std::ssize(rows)}, at::kLong);
  std::int64_t to_read = 0, had = std::ssize(rows);
  std::size_t at = 0;
  for (auto& one : rows) {
    while (prefetched != nullptr && at < prefetched->rows.size() && prefetched->rows[at].row < one.row) ++at;
    const bool known = prefetched != nullptr && at < prefetched->rows.size() &&
                       prefetched->rows[at].row == one.row && prefetched->rows[at].version == one.version;
    one.place = known ? --had : to_read++;
    if (known) {
      const auto* from = static_cast<const std::byte*>(prefetched->bytes.const_data_ptr());
      copy_row(static_cast<std::byte*>(bytes.data_ptr()) + one.place * table_.row_bytes,
               from + prefetched->rows[at].place * table_.row_bytes);
    } else {
      named.data_ptr<std::int64_t>()[one.place] = one.row;
    }
  }
  reads_.fetch_add(to_read, std::memory_order_relaxed);
  prefetched_rows_.fetch_add(std::ssize(rows) - to_read, std::memory_order_relaxed);
  auto fresh = bytes.narrow(0, 0, to_read);
  file.gather(named.narrow(0, 0, to_read), fresh);
  return bytes;
}

/// Gives the rows slots where they deserve them. Rows that were written after they were looked up are renewed
/// first: what was read may be half of each value, and must not replace a newer row.
void RowCache::Work::admit(FileRows& file, const std::vector<MissedRow>& rows, std::byte* bytes) {
  const std::lock_guard lock(held_);
  std::vector<MissedRow> written;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (k + kMissedAhead < rows.size()) sets_.prefetch(rows[k + kMissedAhead].row);
    const auto& one = rows[k];
    if (sets_.version(one.row) != one.version) {
      written.push_back(one);
    } else if (sets_.slot_of(one.row) < 0) {  // else another thread has brought it
      const auto slot = sets_.admit(one.row, static_cast<std::int64_t>(one.last - one.first));
      if (slot >= 0) copy_row(row_at(slot), bytes + one.place * table_.row_bytes);
    }
  }
  renew(file, written, bytes);
}

/// Brings the rows' bytes up to date. No thread writes meanwhile.
void RowCache::Work::renew(FileRows& file, const std::vector<MissedRow>& rows, std::byte* bytes) const {
  for (const auto& one : rows) {
    auto* to = bytes + one.place * table_.row_bytes;
    if (const auto slot = sets_.slot_of(one.row); slot >= 0) {
      copy_row(to, row_at(slot));
      continue;
    }
    auto again = at::empty({1, table_.row_bytes}, at::kByte);
    auto named = at::empty({1}, at::kLong);
    *named.data_ptr<std::int64_t>() = one.row;
    file.gather(named, again);
    copy_row(to, static_cast<const std::byte*>(again.const_data_ptr()));
  }
}

RowCacheStatistics RowCache::Work::statistics() {
  RowCacheStatistics all{.hits = hits_,
                         .misses = misses_,
                         .reads = reads_,
                         .prefetched = prefetched_rows_,
                         .written_back = written_back_};
  const std::shared_lock lock(held_);
  all.evictions = sets_.evictions();
  all.slots = sets_.slots();
  all.bytes = memory_->bytes();
  return all;
}

void RowCache::Work::scatter(const at::Tensor& index, const at::Tensor& values) {
  if (is_lazy(index) || is_lazy(values)) return scatter(resolved(index), resolved(values));
  if (!file_) throw OptionError("this RowCache does not write; open() it with writes = through or back");
  check_values(index, values, table_.row_bytes);
  const auto* from = static_cast<const std::byte*>(values.const_data_ptr());
  with_index(index, [&](const auto* rows) {
    check(rows, index.numel());
    file_->journal ? keep(rows, index.numel(), from)
                   : write_through(rows_to_write(rows, index.numel(), from, table_.row_bytes));
  });
}

/// Rows that a failed write leaves unknown lose their slots.
void RowCache::Work::write_through(const std::vector<RowBytes>& rows) {
  const std::lock_guard lock(held_);
  for (const auto& one : rows) sets_.note_write(one.row);
  try {
    file_->writer.write(rows);
  } catch (const FileError&) {
    for (const auto& one : rows) sets_.drop(one.row);
    throw;
  }
  for (const auto& one : rows) {
    if (const auto slot = sets_.slot_of(one.row); slot >= 0) copy_row(row_at(slot), one.bytes);
  }
}

/// Dirty rows are never replaced. If a set is full of them, all dirty rows are written at once: that takes
/// less time than writing a row of each set when it is in the way.
template <class Index>
void RowCache::Work::keep(const Index* rows, std::int64_t count, const std::byte* values) {
  const std::lock_guard lock(held_);
  constexpr auto ahead = static_cast<std::int64_t>(kMissedAhead);
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) sets_.prefetch(static_cast<std::int64_t>(rows[i + ahead]));
    const auto row = static_cast<std::int64_t>(rows[i]);
    auto slot = sets_.slot_of(row);
    if (slot < 0) slot = sets_.place(row);
    if (slot < 0) {
      write_back();
      slot = sets_.place(row);
    }
    copy_row(row_at(slot), values + i * table_.row_bytes);
    sets_.set_dirty(slot, true);
    sets_.note_write(row);
  }
}

/// Writes all dirty rows to the file. The caller holds the lock.
void RowCache::Work::write_back() {
  std::vector<RowBytes> dirty;
  for (std::int64_t slot = 0; slot < sets_.slots(); ++slot) {
    if (sets_.is_dirty(slot)) dirty.push_back({sets_.row_in(slot), row_at(slot)});
  }
  std::ranges::sort(dirty, {}, &RowBytes::row);
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, kMostJournalBytes / table_.row_bytes));
  for (std::span<const RowBytes> left(dirty); !left.empty();) {
    const auto rows = left.first(std::min(most, left.size()));
    file_->journal->store(rows);
    file_->writer.write(rows);
    file_->journal->clear();
    for (const auto& one : rows) sets_.set_dirty(sets_.slot_of(one.row), false);
    written_back_.fetch_add(std::ssize(rows), std::memory_order_relaxed);
    left = left.subspan(rows.size());
  }
}

void RowCache::Work::flush() {
  if (!file_) return;
  if (file_->journal) {
    const std::lock_guard lock(held_);
    write_back();
  }
  file_->writer.sync();
}

void RowCache::Work::prefetch(const at::Tensor& index) {
  if (is_lazy(index)) return prefetch(resolved(index));
  check_file_index(index);
  with_index(index, [&](const auto* rows) { check(rows, index.numel()); });
  if (::getpid() != owner_)
    throw OrderError("this RowCache belongs to process " + std::to_string(owner_) + ", and process " +
                     std::to_string(::getpid()) + " was forked from it; make one there");
  auto batch = std::make_shared<Batch>();
  batch->index = index.clone();
  {
    const std::lock_guard lock(ahead_mutex_);
    if (!worker_.joinable()) start_worker();
    prefetched_[std::this_thread::get_id()] = batch;
    queue_.push_back(std::move(batch));
  }
  ahead_.notify_all();
}

/// What the calling thread had prefetched, or null.
std::shared_ptr<Batch> RowCache::Work::take_prefetched() {
  const std::lock_guard lock(ahead_mutex_);
  if (prefetched_.empty()) return nullptr;
  const auto found = prefetched_.find(std::this_thread::get_id());
  if (found == prefetched_.end()) return nullptr;
  auto batch = std::move(found->second);
  prefetched_.erase(found);
  return batch;
}

void RowCache::Work::await(const std::shared_ptr<Batch>& batch) {
  std::unique_lock lock(ahead_mutex_);
  ahead_.wait(lock, [&] { return batch->done; });
  if (batch->failed) std::rethrow_exception(batch->failed);
}

void RowCache::Work::start_worker() {
  worker_ = start_thread("a RowCache's prefetch", [this] { serve(); });
}

void RowCache::Work::serve() {
  const at::NoGradGuard unrecorded;
  try {  // the thread inherits its creator's affinity, which may be one CPU
    if (!cpus_.empty()) set_caller_threads(static_cast<int>(cpus_.size()), cpus_);
  } catch (const MemoryError&) {  // then it is slower
  }
  std::unique_lock lock(ahead_mutex_);
  while (true) {
    ahead_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    const auto batch = std::move(queue_.front());
    queue_.pop_front();
    if (batch.use_count() == 1) continue;  // nobody waits for it any more
    lock.unlock();
    try {
      read_ahead(*batch);
    } catch (...) {
      batch->failed = std::current_exception();
    }
    lock.lock();
    batch->done = true;
    ahead_.notify_all();
  }
}

template <class Index>
void RowCache::Work::note_absent(const Index* rows, std::int64_t count, Reader& reader) {
  reader.slots.resize(std::max(reader.slots.size(), static_cast<std::size_t>(count)));
  reader.missed.clear();
  const std::shared_lock lock(held_);
  if (sets_.peek(rows, count, reader.slots.data()) > 0) note_missed(rows, count, reader);
}

void RowCache::Work::read_ahead(Batch& batch) {
  const Lease lease(*this);
  auto& reader = *lease;
  with_index(batch.index, [&](const auto* rows) { note_absent(rows, batch.index.numel(), reader); });
  batch.rows = missed_rows(reader.missed);
  batch.bytes = read(reader.rows, batch.rows, nullptr);
}

RowCache::Work::~Work() {
  {
    const std::lock_guard lock(ahead_mutex_);
    ends_ = true;
  }
  ahead_.notify_all();
  if (::getpid() != owner_) {  // forked: the thread and the writes are the parent's
    if (worker_.joinable()) worker_.detach();
    return;
  }
  if (worker_.joinable()) worker_.join();
  if (!file_ || !file_->journal) return;
  try {
    write_back();
    file_->journal->remove();
  } catch (const FileError& error) {
    TORCH_WARN("a RowCache could not write back its rows, which are lost: ", error.what());
  }
}

RowCache::RowCache(const FileTable& table, const RowCacheOptions& options) {
  if (options.writes != CacheWrites::none)
    throw OptionError("a RowCache on an open file does not write; open() the file by its path");
  work_ = std::make_unique<Work>(table, options);
  shape_ = {table.rows, table.row_bytes};
}

RowCache::RowCache(std::unique_ptr<Work> work, std::vector<std::int64_t> shape, at::ScalarType dtype)
    : shape_(std::move(shape)), dtype_(dtype), work_(std::move(work)) {}

std::unique_ptr<RowCache> RowCache::open(const std::string& path, const RowCacheOptions& options) {
  const bool writes = options.writes != CacheWrites::none;
  auto file = open_array(path, writes ? Access::read_write : Access::read_only);
  const auto table = file_table(file);
  const auto file_path = split_array_path(path).file;
  if (!writes && RowJournal::is_pending(file_path, table) && is_unlocked(table.fd)) {
    throw FileError("a process was killed while it wrote rows of '" + file.name +
                    "'; open it with writes = through or back once, which finishes them");
  }
  auto shape = file.shape;
  const auto dtype = file.dtype;
  auto written = writes ? std::make_unique<WrittenFile>(file_path, std::move(file), options.writes) : nullptr;
  auto work = std::make_unique<Work>(table, options, std::move(written));
  return std::unique_ptr<RowCache>(new RowCache(std::move(work), std::move(shape), dtype));
}

RowCache::~RowCache() = default;

void RowCache::gather(const at::Tensor& index, at::Tensor& out) { work_->gather(index, out); }

void RowCache::prefetch(const at::Tensor& index) { work_->prefetch(index); }

void RowCache::scatter(const at::Tensor& index, const at::Tensor& values) { work_->scatter(index, values); }

void RowCache::flush() { work_->flush(); }

RowCacheStatistics RowCache::statistics() const { return work_->statistics(); }

}  // namespace speedtorch
