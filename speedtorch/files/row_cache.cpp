#include "speedtorch/files/row_cache.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/files/array_file.h"
#include "speedtorch/files/cache_prefetch.h"
#include "speedtorch/files/cache_slots.h"
#include "speedtorch/files/cache_writer.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kCopyGrain = 1 << 10;  ///< rows

/// The file stays open as long as the cache, because each thread that reads at once has a FileRows.
Descriptor opened_again(const FileTable& table) {
  if (table.row_bytes <= 0)
    throw ShapeError("a row cache needs rows of 1 byte or more, not of " + std::to_string(table.row_bytes));
  Descriptor copy(::fcntl(table.fd, F_DUPFD_CLOEXEC, 0));
  if (copy.valid()) return copy;
  const std::string answer = std::strerror(errno);
  throw FileError("cannot read rows of the file: descriptor " + std::to_string(table.fd) + ": " + answer);
}

FileTable with_descriptor(FileTable table, int fd) {
  table.fd = fd;
  return table;
}

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

/// Readers that one call at a time uses. A call leases one and returns it.
class Readers {
 public:
  struct Reader {
    Reader(const FileTable& table, const FileRowsOptions& options) : file(table, options) {}
    FileRows file;
    LookUps look_ups;
  };
  class Lease {
   public:
    explicit Lease(Readers& all) : all_(all), reader_(all.take()) {}
    ~Lease() {
      const std::lock_guard lock(all_.mutex_);
      all_.idle_.push_back(std::move(reader_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Reader& operator*() const { return *reader_; }

   private:
    Readers& all_;
    std::unique_ptr<Reader> reader_;
  };

  /// Makes the first, which checks the table. @throws as FileRows
  Readers(const FileTable& table, const FileRowsOptions& options) : table_(table), options_(options) {
    const Lease first(*this);
  }

 private:
  std::unique_ptr<Reader> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto last = std::move(idle_.back());
        idle_.pop_back();
        return last;
      }
    }
    return std::make_unique<Reader>(table_, options_);
  }

  FileTable table_;
  FileRowsOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Reader>> idle_;
};

}  // namespace

double RowCacheStatistics::hit_rate() const {
  return hits + misses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
}

double RowCacheStatistics::hit_rate_since(const RowCacheStatistics& before) const {
  return RowCacheStatistics{.hits = hits - before.hits, .misses = misses - before.misses}.hit_rate();
}

class RowCache::Work {
 public:
  /// @param writer null if the cache does not write
  Work(const FileTable& table, const RowCacheOptions& options, std::unique_ptr<CacheWriter> writer = nullptr)
      : writer_(std::move(writer)),
        descriptor_(opened_again(table)),
        table_(with_descriptor(table, descriptor_.get())),
        readers_(table_, options.reads),
        slots_(table_, options.bytes),
        prefetch_([this](PrefetchedRows& batch) { read_ahead(batch); }) {}
  ~Work() {
    const bool owned = prefetch_.stop();  // in a forked child the writes are the parent's
    if (owned && writer_) writer_->close(slots_);
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void gather(const at::Tensor& index, at::Tensor& out);
  void prefetch(const at::Tensor& index);
  void scatter(const at::Tensor& index, const at::Tensor& values);
  void flush() {
    if (writer_) writer_->flush(slots_);
  }
  [[nodiscard]] RowCacheStatistics statistics();

 private:
  void check_numbers(const at::Tensor& index) const;
  template <class Index>
  void gather_into(const Index* rows, std::int64_t count, std::byte* out);
  void bring(Readers::Reader& reader, PrefetchedRows* prefetched, std::byte* out);
  [[nodiscard]] at::Tensor read(FileRows& file, std::vector<MissedRow>& rows,
                                const PrefetchedRows* prefetched);
  void read_ahead(PrefetchedRows& batch);

  std::unique_ptr<CacheWriter> writer_;
  Descriptor descriptor_;
  FileTable table_;
  Readers readers_;
  CacheSlots slots_;
  CachePrefetch prefetch_;
  std::atomic<std::int64_t> hits_ = 0, misses_ = 0, reads_ = 0, prefetched_ = 0;
};

void RowCache::Work::check_numbers(const at::Tensor& index) const {
  with_index(index, [&](const auto* rows) {
    kernels::check_indices(rows, index.numel(), table_.rows, CacheSlots::kGrain, parallel_for);
  });
}

void RowCache::Work::gather(const at::Tensor& index, at::Tensor& out) {
  if (is_lazy(index)) return gather(resolved(index), out);
  check_file_operands(index, out, table_.row_bytes);
  check_numbers(index);
  auto* to = static_cast<std::byte*>(out.data_ptr());
  with_index(index, [&](const auto* rows) { gather_into(rows, index.numel(), to); });
  bump_version(out);
}

template <class Index>
void RowCache::Work::gather_into(const Index* rows, std::int64_t count, std::byte* out) {
  const auto prefetched = prefetch_.take();
  if (count == 0) return;
  const Readers::Lease lease(readers_);
  auto& reader = *lease;
  slots_.gather(rows, count, out, reader.look_ups);
  const auto missed = std::ssize(reader.look_ups.missed);
  hits_.fetch_add(count - missed, std::memory_order_relaxed);
  misses_.fetch_add(missed, std::memory_order_relaxed);
  if (missed == 0) return;
  if (prefetched) prefetch_.await(*prefetched);
  bring(reader, prefetched.get(), out);
}

/// Reads the missed rows, copies them to `out`, and admits them.
void RowCache::Work::bring(Readers::Reader& reader, PrefetchedRows* prefetched, std::byte* out) {
  auto& missed = reader.look_ups.missed;
  auto rows = missed_rows(missed);
  const auto bytes = read(reader.file, rows, prefetched);
  auto* const from = static_cast<std::byte*>(bytes.data_ptr());
  slots_.admit(rows, from, reader.file);
  const auto width = table_.row_bytes;
  parallel_for(std::ssize(rows), kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    for (auto k = begin; k < end; ++k) {
      const auto& one = rows[static_cast<std::size_t>(k)];
      for (auto entry = one.first; entry < one.last; ++entry)
        slots_.copy_row(out + missed[entry].position * width, from + one.place * width);
    }
  });
}

/// Returns the rows' bytes and sets their places. Rows of `prefetched` are not read again unless they were
/// written since.
at::Tensor RowCache::Work::read(FileRows& file, std::vector<MissedRow>& rows,
                                const PrefetchedRows* prefetched) {
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
      slots_.copy_row(static_cast<std::byte*>(bytes.data_ptr()) + one.place * table_.row_bytes,
                      from + prefetched->rows[at].place * table_.row_bytes);
    } else {
      named.data_ptr<std::int64_t>()[one.place] = one.row;
    }
  }
  reads_.fetch_add(to_read, std::memory_order_relaxed);
  prefetched_.fetch_add(std::ssize(rows) - to_read, std::memory_order_relaxed);
  auto fresh = bytes.narrow(0, 0, to_read);
  file.gather(named.narrow(0, 0, to_read), fresh);
  return bytes;
}

RowCacheStatistics RowCache::Work::statistics() {
  RowCacheStatistics all{.hits = hits_, .misses = misses_, .reads = reads_, .prefetched = prefetched_};
  if (writer_) all.written_back = writer_->written_back();
  const std::shared_lock lock(slots_.held());
  all.evictions = slots_.sets().evictions();
  all.slots = slots_.sets().slots();
  all.bytes = slots_.bytes();
  return all;
}

void RowCache::Work::scatter(const at::Tensor& index, const at::Tensor& values) {
  if (is_lazy(index) || is_lazy(values)) return scatter(resolved(index), resolved(values));
  if (!writer_) throw OptionError("this RowCache does not write; open() it with writes = through or back");
  check_values(index, values, table_.row_bytes);
  check_numbers(index);
  writer_->scatter(slots_, index, values);
}

void RowCache::Work::prefetch(const at::Tensor& index) {
  if (is_lazy(index)) return prefetch(resolved(index));
  check_file_index(index);
  check_numbers(index);
  prefetch_.start(index);
}

void RowCache::Work::read_ahead(PrefetchedRows& batch) {
  const Readers::Lease lease(readers_);
  auto& reader = *lease;
  with_index(batch.index,
             [&](const auto* rows) { slots_.find_missed(rows, batch.index.numel(), reader.look_ups); });
  batch.rows = missed_rows(reader.look_ups.missed);
  batch.bytes = read(reader.file, batch.rows, nullptr);
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
  const bool back = options.writes == CacheWrites::back;
  auto writer = writes ? std::make_unique<CacheWriter>(file_path, std::move(file), back) : nullptr;
  auto work = std::make_unique<Work>(table, options, std::move(writer));
  return std::unique_ptr<RowCache>(new RowCache(std::move(work), std::move(shape), dtype));
}

RowCache::~RowCache() = default;

void RowCache::gather(const at::Tensor& index, at::Tensor& out) { work_->gather(index, out); }

void RowCache::prefetch(const at::Tensor& index) { work_->prefetch(index); }

void RowCache::scatter(const at::Tensor& index, const at::Tensor& values) { work_->scatter(index, values); }

void RowCache::flush() { work_->flush(); }

RowCacheStatistics RowCache::statistics() const { return work_->statistics(); }

}  // namespace speedtorch
