/// Reads by io_uring. Each completion makes place for the next request.
#include <liburing.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "speedtorch/error.h"
#include "speedtorch/files/file_reads.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

/// The maximum size of a single request. The next request takes the rest of the read.
constexpr std::int64_t most_request_bytes = std::int64_t{1} << 30;

/// A read in flight.
struct Slot {
  const FileRead* read = nullptr;
  std::byte* to = nullptr;
  std::int64_t done = 0;
};

/// The first error; error 0 is the end of the file.
struct Failure {
  std::int64_t offset, bytes;
  int error;
};

class Ring {
 public:
  explicit Ring(int depth) : slots_(static_cast<std::size_t>(depth)) {
    io_uring_params parameters{};
    // Completions run when this thread enters the kernel anyway, and do not interrupt it.
    parameters.flags = IORING_SETUP_COOP_TASKRUN;
    error_ = -io_uring_queue_init_params(static_cast<unsigned>(depth), &ring_, &parameters);
    if (error_ == EINVAL)
      error_ = -io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0);  // before 5.19
  }
  ~Ring() {
    if (error_ == 0) io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  /// Why there is no ring; 0 if there is one.
  [[nodiscard]] int error() const { return error_; }

  /// Performs the reads [begin, end) of the plan with at most `depth` in flight.
  /// @throws FileError once nothing is in flight
  void read(const ReadJob& job, std::int64_t begin, std::int64_t end, int depth) {
    if (lost_ > 0) refuse_read(job.table.offset, 0, EIO);
    job_ = &job, depth_ = static_cast<std::size_t>(depth);
    failure_.reset();
    free_.clear();
    for (unsigned slot = 0; slot < depth_; ++slot) free_.push_back(slot);
    auto next = begin;
    while ((next < end && !failure_) || in_flight() > lost_) {
      while (next < end && !failure_ && !free_.empty())
        start(job.plan->reads[static_cast<std::size_t>(next++)]);
      wait();
      reap();
    }
    if (failure_) refuse_read(failure_->offset, failure_->bytes, failure_->error);
  }

 private:
  [[nodiscard]] std::size_t in_flight() const { return depth_ - free_.size(); }

  void start(const FileRead& read) {
    const auto slot = free_.back();
    free_.pop_back();
    slots_[slot] = {&read, job_->is_direct(read) ? job_->first_place(read) : buffer(slot), 0};
    request(slot);
  }

  /// The buffer for a read of several rows.
  std::byte* buffer(unsigned slot) {
    buffers_.resize(std::max(buffers_.size(), depth_ * most_joined_bytes));
    return buffers_.data() + slot * static_cast<std::size_t>(most_joined_bytes);
  }

  /// There are as many queue entries as slots, so one is always free.
  void request(unsigned slot) {
    const auto& [read, to, done] = slots_[slot];
    auto* entry = io_uring_get_sqe(&ring_);
    const auto bytes = std::min(read->bytes - done, most_request_bytes);
    io_uring_prep_read(entry, job_->table.fd, to + done, static_cast<unsigned>(bytes),
                       static_cast<unsigned long long>(read->offset + done));
    io_uring_sqe_set_data64(entry, slot);
  }

  /// Submits new requests and waits for an eighth of those in flight: entering the kernel for each single
  /// completion costs more than the row.
  void wait() {
    const auto enough = static_cast<unsigned>(std::max<std::size_t>(1, in_flight() / 8));
    io_uring_cqe* entry = nullptr;
    const int got = lost_ > 0 ? io_uring_wait_cqe(&ring_, &entry) : io_uring_submit_and_wait(&ring_, enough);
    if (got >= 0 || got == -EINTR || got == -EAGAIN || got == -EBUSY || lost_ > 0) return;
    // The ring itself is broken. What it has not taken never completes, and it takes nothing more.
    lost_ = io_uring_sq_ready(&ring_);
    failure_ = {job_->table.offset, 0, -got};
  }

  void reap() {
    io_uring_cqe* entry = nullptr;
    unsigned head = 0, seen = 0;
    io_uring_for_each_cqe(&ring_, head, entry) {
      complete(static_cast<unsigned>(io_uring_cqe_get_data64(entry)), entry->res);
      ++seen;
    }
    io_uring_cq_advance(&ring_, seen);
  }

  void complete(unsigned slot, int result) {
    auto& [read, to, done] = slots_[slot];
    const bool again = result == -EINTR || result == -EAGAIN;
    if (result > 0) done += result;
    if (done == read->bytes) {
      job_->deliver(*read, to);
    } else if ((result > 0 || again) && !failure_) {
      request(slot);
      return;
    } else if (!failure_) {
      failure_ = {read->offset + done, read->bytes - done, -result};
    }
    free_.push_back(slot);
  }

  io_uring ring_{};
  int error_ = 0;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;
  std::vector<std::byte> buffers_;
  const ReadJob* job_ = nullptr;
  std::size_t depth_ = 0;
  std::size_t lost_ = 0;  ///< requests that a broken ring did not take
  std::optional<Failure> failure_;
};

/// Two rings on two threads, because one ring's submissions and completions keep a core busy. (Cold rows of
/// 512 B, 256 in flight: 110,000 to 130,000 per second with one ring, 135,000 to 155,000 with two, which was
/// the disk's limit.)
class RingReader final : public FileReader {
 public:
  explicit RingReader(int depth) : depth_(depth), rings_{Ring(depth), Ring(depth)} {}

  /// Why there is no ring; 0 if there is one.
  [[nodiscard]] int error() const { return rings_[0].error() != 0 ? rings_[0].error() : rings_[1].error(); }

  void read(const ReadJob& job) override {
    const auto count = std::ssize(job.plan->reads);
    const std::int64_t rings = thread_count() == 1 || count < fewest_for_two || depth_ == 1 ? 1 : 2;
    const int depth = depth_ / static_cast<int>(rings);
    parallel_for(rings, 1, [&](std::int64_t first, std::int64_t last) {
      for (auto k = first; k < last; ++k) {
        rings_[static_cast<std::size_t>(k)].read(job, count * k / rings, count * (k + 1) / rings, depth);
      }
    });
  }

 private:
  static constexpr std::int64_t fewest_for_two =
      64;  ///< reads; with fewer, waking another thread does not pay
  int depth_;
  std::array<Ring, 2> rings_;
};

}  // namespace

std::unique_ptr<FileReader> make_ring_reader(int depth, std::string& why) {
  auto reader = std::make_unique<RingReader>(depth);
  if (reader->error() == 0) return reader;
  why = std::string("the system refuses io_uring: ") + std::strerror(reader->error());
  return nullptr;
}

}  // namespace speedtorch
