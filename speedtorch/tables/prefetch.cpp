#include "speedtorch/tables/prefetch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isin.h>

#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/files/file_rows.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

/// The batched reader of a table that lives in a file; null for other tables.
std::unique_ptr<FileRows> reader_of(const Table& table) {
  const auto& memory = *table.memory();
  if (memory.file_fd() < 0 || table.bytes() == 0) return nullptr;
  return std::make_unique<FileRows>(
      FileTable{memory.file_fd(), memory.file_offset(), table.rows(), table.bytes() / table.rows()});
}

}  // namespace

PrefetchSetup prefetch_setup(const Table& table, at::Device model, std::size_t depth) {
  if (!model.is_cpu()) model = gpu_of(model, "a model");
  const auto own = table.memory()->device();
  PrefetchSetup setup;
  setup.route = route_of(table.placement(), own, model);
  const bool on_host = setup.route == Route::host || setup.route == Route::staged;
  if (!on_host) setup.index_device = own;
  if (setup.route != Route::host) {
    std::vector<at::Device> gpus;
    if (own.is_cuda()) gpus.push_back(own);
    if (model.is_cuda() && model != own) gpus.push_back(model);
    setup.side = side_stream(gpus, depth + 1);
  }
  setup.staging = [](at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::empty(sizes, at::TensorOptions().dtype(dtype).pinned_memory(true));
  };
  setup.results = [model](at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::empty(sizes, at::TensorOptions().dtype(dtype).device(model));
  };
  return setup;
}

/// The batches in flight, each in a slot of a ring. The ring has one slot more than the depth, because the
/// slot that take() returned last stays the caller's.
class Prefetcher::Work {
 public:
  Work(const Table& table, PrefetchSetup setup, std::size_t depth)
      : table_(table), setup_(std::move(setup)), slots_(depth + 1), reader_(reader_of(table)) {
    if (depth == 0) throw ShapeError("a Prefetcher needs a depth of 1 or more");
    worker_ = start_thread("a Prefetcher", [this] { serve(); });
  }
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void submit(const RowIndex& index);
  at::Tensor take();
  void scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates);
  void require_worker() const;
  [[nodiscard]] bool is_of_parent() const { return ::getpid() != owner_; }
  [[nodiscard]] std::size_t in_flight() const { return submitted_ - taken_; }
  [[nodiscard]] std::size_t depth() const { return slots_.size() - 1; }

 private:
  struct Slot {
    at::Tensor index;  ///< in the caller's shape
    at::Tensor staging, results;
    std::int64_t count = 0;
    std::exception_ptr failed;
    bool stale = false;
  };

  void spread_threads() const;
  void serve();
  void gather(std::size_t number);
  void gather_on_host(const at::Tensor& index, at::Tensor& out);
  [[nodiscard]] std::vector<std::int64_t> shape(at::IntArrayRef places) const {
    return joined_sizes(places, table_.sizes().slice(1));
  }
  void reserve(at::Tensor& buffer, std::int64_t count, const PrefetchSetup::NewTensor& make) const;

  Table table_;
  PrefetchSetup setup_;
  std::vector<Slot> slots_;
  std::vector<int> cpus_{pinned_cpus().begin(), pinned_cpus().end()};
  std::unique_ptr<FileRows> reader_;
  std::size_t submitted_ = 0, taken_ = 0;  ///< used by the caller alone
  std::mutex mutex_;                       ///< guards the members below
  std::condition_variable changed_;
  std::size_t waiting_ = 0, gathered_ = 0;  ///< batches handed to the worker, and those that it has done
  bool ends_ = false;
  std::mutex rows_;  ///< held while the table's rows are read or written
  const pid_t owner_ = ::getpid();
  std::thread worker_;
};

/// A forked child has no copy of the worker and would wait for it for ever.
void Prefetcher::Work::require_worker() const {
  if (!is_of_parent()) return;
  throw OrderError("this Prefetcher belongs to process " + std::to_string(owner_) + ", and process " +
                   std::to_string(::getpid()) + " was forked from it; create one there");
}

Prefetcher::Work::~Work() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  worker_.join();
  if (!setup_.side) return;
  for (std::size_t number = 0; number < slots_.size(); ++number) setup_.side->make_host_wait(number);
}

void Prefetcher::Work::reserve(at::Tensor& buffer, std::int64_t count,
                               const PrefetchSetup::NewTensor& make) const {
  if (!buffer.defined() || buffer.size(0) < count) buffer = make(shape({count}), table_.dtype());
}

void Prefetcher::Work::submit(const RowIndex& index) {
  if (in_flight() == depth())
    throw OrderError(std::to_string(depth()) + " batches are in flight already; take() one first");
  auto numbers = index.numbers(table_.rows(), setup_.index_device).clone();
  if (setup_.route == Route::host) wait_for_gpu(table_);
  const auto number = submitted_ % slots_.size();
  auto& slot = slots_[number];
  slot.count = numbers.numel();
  slot.index = std::move(numbers);
  slot.failed = nullptr;
  slot.stale = false;
  reserve(slot.results, slot.count, setup_.results);
  if (setup_.side) setup_.side->record_caller(number);
  ++submitted_;
  {
    const std::lock_guard lock(mutex_);
    ++waiting_;
  }
  changed_.notify_all();
}

/// A thread inherits its creator's affinity, which is one CPU if set_threads() pinned the creator. This
/// spreads the worker's own pool as the caller's is. If the system refuses, the worker is slower but correct.
void Prefetcher::Work::spread_threads() const {
  if (cpus_.empty()) return;
  try {
    set_caller_threads(static_cast<int>(cpus_.size()), cpus_);
  } catch (const MemoryError&) {
  }
}

void Prefetcher::Work::serve() {
  const at::NoGradGuard unrecorded;
  spread_threads();
  while (true) {
    std::size_t number = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || waiting_ > gathered_; });
      if (ends_) return;
      number = gathered_ % slots_.size();
    }
    {
      const std::lock_guard reading(rows_);
      try {
        gather(number);
      } catch (...) {
        slots_[number].failed = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      ++gathered_;
    }
    changed_.notify_all();
  }
}

void Prefetcher::Work::gather_on_host(const at::Tensor& index, at::Tensor& out) {
  if (reader_) return reader_->gather(index, out);
  gather_rows(table_.host_tensor(), index, out);
}

void Prefetcher::Work::gather(std::size_t number) {
  auto& slot = slots_[number];
  const auto index = slot.index.view({-1});
  auto out = slot.results.narrow(0, 0, slot.count);
  if (setup_.route == Route::host) return gather_on_host(index, out);
  auto& side = *setup_.side;
  if (setup_.route == Route::staged) {
    side.make_host_wait(number);  // for the last copy from this staging memory
    reserve(slot.staging, slot.count, setup_.staging);
    auto staged = slot.staging.narrow(0, 0, slot.count);
    gather_on_host(index, staged);
    side.run_after_caller(number, [out, staged] { out.copy_(staged, /*non_blocking=*/true); });
  } else {
    side.run_after_caller(number, [this, index, out]() mutable { gather_rows(table_, index, out); });
  }
}

at::Tensor Prefetcher::Work::take() {
  if (in_flight() == 0) throw OrderError("no batch is in flight; submit() one first");
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return gathered_ > taken_; });
  }
  const auto number = taken_++ % slots_.size();
  auto& slot = slots_[number];
  if (slot.failed) std::rethrow_exception(std::exchange(slot.failed, nullptr));
  if (setup_.side) setup_.side->make_caller_wait(number);
  auto out = slot.results.narrow(0, 0, slot.count);
  if (slot.stale) {
    const std::lock_guard reading(rows_);
    gather_rows(table_, slot.index.view({-1}), out);
  }
  return out.view(shape(slot.index.sizes()));
}

void Prefetcher::Work::scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates) {
  const std::lock_guard writing(rows_);  // the worker is between two batches
  std::size_t gathered = 0;
  {
    const std::lock_guard lock(mutex_);
    gathered = gathered_;
  }
  if (setup_.side && setup_.route != Route::staged) {  // kernels may still read the table
    for (auto k = taken_; k < gathered; ++k) setup_.side->make_caller_wait(k % slots_.size());
  }
  scatter_rows(table_, index, values, duplicates);
  if (setup_.route == Route::host) wait_for_gpu(table_);  // for the batches that the worker has yet to start
  if (setup_.side)
    for (auto k = gathered; k < submitted_; ++k) setup_.side->record_caller(k % slots_.size());
  const auto written = index.numbers(table_.rows(), setup_.index_device).flatten();
  for (auto k = taken_; k < gathered;
       ++k) {  // batches that the worker has not started will read the new rows
    auto& slot = slots_[k % slots_.size()];
    if (!slot.stale) slot.stale = at::isin(slot.index, written).any().item<bool>();
  }
}

Prefetcher::Prefetcher(const Table& table, at::Device model, std::size_t depth)
    : Prefetcher(table, prefetch_setup(table, model, depth), depth) {}

Prefetcher::Prefetcher(const Table& table, PrefetchSetup setup, std::size_t depth)
    : work_(std::make_unique<Work>(table, std::move(setup), depth)) {}

/// In a forked child there is no thread to join, the worker may hold the mutex for ever, and a condition
/// variable's destructor waits for its waiters. So the child leaks all of it.
Prefetcher::~Prefetcher() {
  if (work_ && work_->is_of_parent()) static_cast<void>(work_.release());
}

void Prefetcher::submit(const RowIndex& index) {
  work_->require_worker();
  work_->submit(index);
}

at::Tensor Prefetcher::take() {
  work_->require_worker();
  return work_->take();
}

void Prefetcher::scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates) {
  work_->require_worker();
  work_->scatter(index, values, duplicates);
}

std::size_t Prefetcher::in_flight() const { return work_->in_flight(); }

std::size_t Prefetcher::depth() const { return work_->depth(); }

}  // namespace speedtorch
