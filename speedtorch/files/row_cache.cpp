#include "speedtorch/files/row_cache.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/files/cache_sets.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/rows/row_operands.h"
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

void require_rows(const FileTable& table) {
  if (table.row_bytes <= 0)
    throw ShapeError("a row cache needs rows of 1 byte or more, not of " + std::to_string(table.row_bytes));
}

}  // namespace

double RowCacheStatistics::hit_rate() const {
  return hits + misses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
}

class RowCache::Work {
 public:
  Work(const FileTable& table, const RowCacheOptions& options)
      : table_((require_rows(table), table)),
        options_(options.reads),
        first_reader_(std::make_unique<Reader>(table, options_)),
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

  FileTable table_;
  FileRowsOptions options_;
  std::unique_ptr<Reader> first_reader_;  ///< checks the table before memory is allocated
  std::int64_t sets_count_;
  std::shared_ptr<Memory> memory_;  ///< the sets and then the slots
  FairSharedMutex held_;            ///< guards the sets and slots; look-ups and copies from slots share it
  CacheSets sets_;
  std::atomic<std::int64_t> hits_ = 0, misses_ = 0, reads_ = 0, prefetched_rows_ = 0;

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
  RowCacheStatistics all{.hits = hits_, .misses = misses_, .reads = reads_, .prefetched = prefetched_rows_};
  const std::shared_lock lock(held_);
  all.evictions = sets_.evictions();
  all.slots = sets_.slots();
  all.bytes = memory_->bytes();
  return all;
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
  if (!worker_.joinable()) return;
  ::getpid() == owner_ ? worker_.join() : worker_.detach();
}

RowCache::RowCache(const FileTable& table, const RowCacheOptions& options)
    : work_(std::make_unique<Work>(table, options)) {}

RowCache::~RowCache() = default;

void RowCache::gather(const at::Tensor& index, at::Tensor& out) { work_->gather(index, out); }

void RowCache::prefetch(const at::Tensor& index) { work_->prefetch(index); }

RowCacheStatistics RowCache::statistics() const { return work_->statistics(); }

}  // namespace speedtorch
