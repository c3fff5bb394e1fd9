#include "speedtorch/shared/row_locks.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "speedtorch/error.h"
#include "speedtorch/memory/shared_memory.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kMostLocks = 1024;
constexpr std::int64_t kMostBytes = std::int64_t{4} << 20;
constexpr std::int64_t kLine = 64;  // bytes of a cache line

std::int64_t whole_lines(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

std::int64_t lock_bytes(std::int64_t count, std::int64_t row_bytes) {
  return count * (kLine + whole_lines(row_bytes));
}

/// "2nd", "512th": for powers of two up to 1,024.
std::string ordinal(std::int64_t number) {
  return std::to_string(number) + (number % 10 == 2 && number % 100 != 12 ? "nd" : "th");
}

/// An instant of pthread's monotonic clock.
timespec later(std::chrono::milliseconds timeout) {
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  const auto nanoseconds = until.tv_nsec + timeout.count() % 1000 * 1'000'000;
  until.tv_sec += timeout.count() / 1000 + nanoseconds / 1'000'000'000;
  until.tv_nsec = nanoseconds % 1'000'000'000;
  return until;
}

/// Keeps the compiler from moving stores across. A killed process has made the stores before that instant, in
/// the order of its instructions, so that other processors need no fence here.
void keep_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

/// In memory of zeros, so that `row` begins as "none".
struct alignas(kLine) RowLocks::Lock {
  pthread_mutex_t mutex;
  std::atomic<std::int64_t> row;  ///< 1 + the number of the row that is copied from new_row(); 0: none
};

RowLocks::Lock& RowLocks::lock(std::int64_t number) const {
  static_assert(sizeof(Lock) == kLine);
  return reinterpret_cast<Lock*>(memory_->data())[number];
}

std::byte* RowLocks::new_row(std::int64_t number) const {
  return memory_->data() + count_ * kLine + number * whole_lines(row_bytes_);
}

std::int64_t RowLocks::count_for(std::int64_t rows, std::int64_t row_bytes) {
  const auto most = std::min({kMostLocks, rows, kMostBytes / std::max(kLine, row_bytes)});
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, most))));
}

RowLocks::RowLocks(std::shared_ptr<Memory> memory, std::int64_t count, std::int64_t row_bytes)
    : memory_(std::move(memory)), count_(count), row_bytes_(row_bytes) {}

RowLocks::RowLocks(Descriptor file, std::int64_t count, std::int64_t row_bytes)
    : RowLocks(map_shared(Placement::pageable, std::move(file), 0, lock_bytes(count, row_bytes), true), count,
               row_bytes) {}

std::unique_ptr<RowLocks> RowLocks::create(std::int64_t rows, std::int64_t row_bytes) {
  const auto count = count_for(rows, row_bytes);
  auto memory = allocate_shared(Placement::pageable, lock_bytes(count, row_bytes));
  seal_size(memory->shared_fd());
  std::unique_ptr<RowLocks> made(new RowLocks(std::move(memory), count, row_bytes));
  pthread_mutexattr_t kind;
  ::pthread_mutexattr_init(&kind);
  ::pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  for (std::int64_t k = 0; k < count; ++k) ::pthread_mutex_init(&made->lock(k).mutex, &kind);
  ::pthread_mutexattr_destroy(&kind);
  return made;
}

/// Copies the new row that a lock keeps to the table, if there is one.
void RowLocks::copy(std::int64_t number, std::byte* rows) const {
  const auto row = lock(number).row.load(std::memory_order_relaxed) - 1;
  if (row < 0) return;
  keep_order();
  std::memcpy(rows + row * row_bytes_, new_row(number), static_cast<std::size_t>(row_bytes_));
  keep_order();
  lock(number).row.store(0, std::memory_order_relaxed);
}

/// Returns true if its last owner was killed while it copied a row, which is copied now.
bool RowLocks::acquire(std::int64_t number, std::byte* rows, std::chrono::milliseconds timeout) const {
  auto& mutex = lock(number).mutex;
  int error = ::pthread_mutex_trylock(&mutex);
  if (error == EBUSY) {
    const auto until = later(timeout);
    error = ::pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until);
  }
  if (error == 0) return false;
  if (error == EOWNERDEAD) {
    const bool finishes = lock(number).row.load(std::memory_order_relaxed) != 0;
    copy(number, rows);
    ::pthread_mutex_consistent(&mutex);
    return finishes;
  }
  const auto every = count_ > 1 ? " and every " + ordinal(count_) + " row after it" : "";
  if (error == ETIMEDOUT)
    throw SharingError("the lock of row " + std::to_string(number) + every + " is owned by thread " +
                       std::to_string(mutex.__data.__owner) + " for more than " +
                       std::to_string(timeout.count()) + " ms; the thread may be stopped");
  throw SharingError("the lock of row " + std::to_string(number) + every +
                     " cannot be taken: " + std::strerror(error));
}

void RowLocks::write(std::byte* rows, std::int64_t row, SetRow set, std::chrono::milliseconds timeout) const {
  const auto number = row % count_;
  acquire(number, rows, timeout);
  set(new_row(number));
  keep_order();
  lock(number).row.store(row + 1, std::memory_order_relaxed);
  copy(number, rows);
  ::pthread_mutex_unlock(&lock(number).mutex);
}

std::int64_t RowLocks::finish_all(std::byte* rows, std::chrono::milliseconds timeout) const {
  std::int64_t finished = 0;
  for (std::int64_t k = 0; k < count_; ++k) {
    finished += acquire(k, rows, timeout) ? 1 : 0;
    ::pthread_mutex_unlock(&lock(k).mutex);
  }
  return finished;
}

}  // namespace speedtorch
