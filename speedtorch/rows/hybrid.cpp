#include "speedtorch/rows/hybrid.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/kernels/cuda/device.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/rows/hybrid_operands.h"
#include "speedtorch/rows/row_overlap.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

using kernels::check_cuda;

/// The maximum of rows that the calibration moves: 32 MB of 512 bytes, some milliseconds per run.
constexpr std::int64_t calibration_rows = 65'536;
constexpr int calibration_runs = 5;
constexpr int copies = 8;

class Event {
 public:
  Event() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Later work on `stream` waits for what was recorded.
  void hold(cudaStream_t stream) {
    check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  /// The calling thread waits.
  void wait() { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  /// `record(from)` and `hold(to)` without exceptions. Returns false if CUDA refuses.
  bool join(cudaStream_t from, cudaStream_t to) noexcept {
    return cudaEventRecord(event_, from) == cudaSuccess && cudaStreamWaitEvent(to, event_, 0) == cudaSuccess;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Seconds of the fastest of several runs of `work`, including the device's part.
template <class Work>
double fastest(Work work) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < calibration_runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

std::int64_t row_bytes_of(const at::Tensor& table) {
  return c10::multiply_integers(table.sizes().slice(1)) * static_cast<std::int64_t>(table.element_size());
}

kernels::ConstRows bytes_of(const at::Tensor& contiguous) {
  const auto bytes = static_cast<std::int64_t>(contiguous.nbytes());
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), 1, bytes, bytes};
}

/// Random rows of the table. Not at::randint, which would advance the caller's generator.
at::Tensor random_index(std::int64_t count, std::int64_t rows) {
  auto index = at::empty({count}, at::kLong);
  std::mt19937_64 random;  // any sequence serves
  std::uniform_int_distribution<std::int64_t> row(0, rows - 1);
  std::generate_n(index.mutable_data_ptr<std::int64_t>(), count, [&] { return row(random); });
  return index;
}

/// Waits for a stream in its destructor. Declare it after memory that the stream's copies use.
class Drain {
 public:
  explicit Drain(cudaStream_t stream) : stream_(stream) {}
  ~Drain() { cudaStreamSynchronize(stream_); }
  Drain(const Drain&) = delete;

 private:
  cudaStream_t stream_;
};

/// Makes `current` wait for the work of `engine`, in join() or at the latest in the destructor. Otherwise a
/// caller that gets an error would free or reuse `out` while copies to it are in flight.
class Joint {
 public:
  Joint(Event& event, cudaStream_t engine, cudaStream_t current)
      : event_(event), engine_(engine), current_(current) {}
  ~Joint() {
    if (open_ && !event_.join(engine_, current_)) cudaStreamSynchronize(engine_);
  }
  Joint(const Joint&) = delete;

  void join() {
    event_.record(engine_);
    event_.hold(current_);
    open_ = false;
  }

 private:
  Event& event_;
  cudaStream_t engine_, current_;
  bool open_ = true;
};

}  // namespace

class HybridGather::Impl {
 public:
  Impl(const at::Tensor& table, const at::Tensor& host_table, std::int64_t batch, std::optional<double> given)
      : share(given.value_or(0)),
        is_given_(given.has_value()),
        table_(table),
        host_table_(host_table),
        batch_(batch),
        row_bytes_(row_bytes_of(table)),
        engine_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, table.device().index())),
        drain_(engine_) {
    const auto rows = largest_hybrid_piece(batch, row_bytes_);
    for (auto& piece : staging_) {
      piece = allocate(Placement::pinned, rows * row_bytes_, table.device())
                  ->host_tensor(with_rows(rows), table.scalar_type());
    }
    if (!is_given_) calibrate(std::min(batch, calibration_rows));
  }

  void gather(const at::Tensor& index, const at::Tensor& host_index, at::Tensor& out) {
    check_hybrid_operands(table_, batch_, index, host_index, out);
    const auto bytes = index.numel() * row_bytes_;
    if (overlap(bytes_of(index), bytes_of(out)) || overlap(bytes_of(host_index), bytes_of(out)))
      throw ShapeError("the index and out of a hybrid gather overlap; the destination needs its own memory");
    if (overlap(bytes_of(table_), bytes_of(out)))
      throw ShapeError("out of a hybrid gather lies in the table; it needs its own memory");
    gather(index, host_index, out, is_given_ ? share : hybrid_share_of(rates, share, measured_bytes_, bytes));
  }

  [[nodiscard]] at::Device device() const { return table_.device(); }

  HybridRates rates;
  double share;

 private:
  /// Sends `part` of the rows through the copy engine.
  void gather(const at::Tensor& index, const at::Tensor& host_index, at::Tensor& out, double part) {
    const auto pieces = hybrid_pieces(index.numel(), row_bytes_, part);
    const auto in_place = pieces.empty() ? index.numel() : pieces.front().first;
    const auto flat = index.view({-1}), host_flat = host_index.view({-1});
    check_hybrid_indices(host_flat, in_place, table_.size(0));
    auto first_rows = out.narrow(0, 0, in_place);
    if (pieces.empty()) return gather_rows(table_, flat, first_rows);
    const auto current = c10::cuda::getCurrentCUDAStream(table_.device().index());
    before_.record(current);  // `out` may still be in use there
    before_.hold(engine_);
    Joint joint(after_, engine_, current);
    gather_rows(table_, flat.narrow(0, 0, in_place), first_rows);
    for (std::size_t i = 0; i < pieces.size(); ++i) send(pieces[i], host_flat, out, i % staging_.size());
    joint.join();
  }

  [[nodiscard]] std::vector<std::int64_t> with_rows(std::int64_t rows) const {
    return joined_sizes({rows}, table_.sizes().slice(1));
  }

  /// Sends one piece through staging memory `slot`, once its last copy has left it.
  void send(const HybridPiece& piece, const at::Tensor& host_index, at::Tensor& out, std::size_t slot) {
    copied_[slot].wait();
    auto staging = staging_[slot].narrow(0, 0, piece.count);
    gather_rows(host_table_, host_index.narrow(0, piece.first, piece.count), staging);
    auto* const to = static_cast<std::byte*>(out.data_ptr()) + piece.first * row_bytes_;
    const auto bytes = static_cast<std::size_t>(piece.count * row_bytes_);
    check_cuda(cudaMemcpyAsync(to, staging.const_data_ptr(), bytes, cudaMemcpyHostToDevice, engine_),
               "cudaMemcpyAsync");
    copied_[slot].record(engine_);
  }

  /// Measures each rate by itself, then the model's share and others near it, and keeps the fastest.
  void calibrate(std::int64_t rows) {
    const auto host_index = random_index(rows, table_.size(0));
    const auto index = host_index.to(table_.device());
    auto out = at::empty(with_rows(rows), table_.options());
    const Drain drain(engine_);
    measured_bytes_ = rows * row_bytes_;
    const auto run = [&](double with) { return fastest([&] { gather(index, host_index, out, with); }); };
    const auto bytes = [&](std::int64_t count) { return static_cast<double>(count * row_bytes_); };
    const auto piece = std::min(rows, staging_[0].size(0));
    const auto piece_index = host_index.narrow(0, 0, piece);
    auto piece_rows = staging_[0].narrow(0, 0, piece);
    rates.zero_copy = bytes(rows) / run(0);
    rates.host_gather = bytes(piece) / fastest([&] { gather_rows(host_table_, piece_index, piece_rows); });
    rates.copy_engine = copies * bytes(piece) / fastest([&] { copy(out, piece); });
    auto first_row = out.narrow(0, 0, 1);
    rates.start_seconds =
        fastest([&] { gather(index.narrow(0, 0, 1), host_index.narrow(0, 0, 1), first_row, 1); });
    double best = std::numeric_limits<double>::infinity();
    for (const double candidate : hybrid_candidates(hybrid_share(rates, measured_bytes_))) {
      const double seconds = run(candidate);
      if (seconds < best) best = seconds, share = candidate;
    }
  }

  /// Copies the first rows of staging memory to the GPU several times, so that a copy's fixed cost does not
  /// count.
  void copy(at::Tensor& out, std::int64_t rows) {
    const auto bytes = static_cast<std::size_t>(rows * row_bytes_);
    for (int k = 0; k < copies; ++k) {
      check_cuda(cudaMemcpyAsync(out.data_ptr(), staging_[0].const_data_ptr(), bytes, cudaMemcpyHostToDevice,
                                 engine_),
                 "cudaMemcpyAsync");
    }
  }

  bool is_given_;
  at::Tensor table_, host_table_;
  std::int64_t batch_;
  std::int64_t row_bytes_;
  std::int64_t measured_bytes_ = 0;  // of the batch for which `share` is best
  c10::cuda::CUDAStream engine_;
  std::array<at::Tensor, 2> staging_;
  std::array<Event, 2> copied_;
  Event before_, after_;
  Drain drain_;  // the last member, so destroyed first, before the staging memory; also if the constructor
                 // throws
};

HybridGather::HybridGather(const at::Tensor& table, const at::Tensor& host_table, std::int64_t batch,
                           std::optional<double> share) {
  check_hybrid_table(table, batch);
  if (share && !(*share >= 0 && *share <= 1))
    throw OptionError("a hybrid gather's share is " + std::to_string(*share) +
                      "; 0 to 1 of the rows can go by the copy engine");
  const bool two_views = table.device().is_cuda() && host_table.device().is_cpu() &&
                         table.const_data_ptr() == host_table.const_data_ptr() &&
                         table.sizes() == host_table.sizes() && table.is_contiguous() &&
                         host_table.is_contiguous() && table.scalar_type() == host_table.scalar_type();
  if (!two_views) {
    throw PlacementError(
        "a hybrid gather needs the two views of one pinned memory: tensor() on a GPU and host_tensor()");
  }
  const c10::cuda::CUDAGuard guard(table.device());
  impl_ = std::make_unique<Impl>(table, host_table, batch, share);
}

HybridGather::~HybridGather() = default;

void HybridGather::gather(const at::Tensor& index, const at::Tensor& host_index, at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(impl_->device());
  impl_->gather(index, host_index, out);
}

const HybridRates& HybridGather::rates() const { return impl_->rates; }

double HybridGather::share() const { return impl_->share; }

}  // namespace speedtorch
