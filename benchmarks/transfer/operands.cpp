#include "benchmarks/transfer/operands.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/memory/shared_memory.h"

namespace stbench {
namespace {

using speedtorch::Placement;

/// Up to this many bytes per set the values of all sets are kept, so that back-to-back runs can rotate over
/// them. A sample of one run (1000 clock steps, some 30 us) is reached well below it.
constexpr std::int64_t keep_all_values = std::int64_t{4} << 20;

/// A case whose output has at most this many bytes has a second destination.
constexpr std::int64_t most_of_two_destinations = std::int64_t{64} << 20;

/// A bidirectional operation has none, because its halves are slices of one tensor that are made once.
int destinations_of(const TransferCase& one, std::int64_t payload) {
  return one.reads() && !one.bidirectional() && payload <= most_of_two_destinations ? 2 : 1;
}

/// The model tensor and the values get the placement's kind of page too; those of a mapped table get 4 KiB
/// pages.
Placement page_kind(Placement placement) {
  return placement == Placement::mapped ? Placement::pageable : placement;
}

at::Tensor slice(const at::Tensor& whole, std::int64_t first, std::int64_t count) {
  return whole.defined() ? whole.narrow(0, first, count) : whole;
}

}  // namespace

std::int64_t Operands::working_bytes(const TransferCase& one) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t largest_factor = 1024;  // of payload and batch below, together
  std::int64_t payload = 0;
  const auto batch = one.rows_moved();
  const bool overflows = __builtin_mul_overflow(batch, one.shape().row_bytes(), &payload);
  if (overflows || std::max(payload, batch) > most / largest_factor) return most;
  const auto values = payload <= keep_all_values ? 2 * harness::index_sets * payload : payload;
  // Indices on both sides and the contiguous ones, the write log of two patterns, the rows of a check, and
  // two of a slice.
  const auto indices = batch * (harness::index_sets * std::int64_t{5 * 8 + 2 * 16} + 6 * 8);
  // The model tensors, a tensor of LibTorch's own, its copy for the checks.
  return (2 + destinations_of(one, payload)) * payload + values + indices;
}

Operands::Operands(const TransferCase& one, std::shared_ptr<speedtorch::Memory> memory,
                   const IndexSets& indices)
    : cache_bytes_(one.cache_bytes),
      whole_batch_(one.rows_moved()),
      memory_(std::move(memory)),
      model_device_(one.device),
      same_device_(memory_->device() == model_device_) {
  const auto shape = one.shape();
  const std::array<std::int64_t, 2> sizes{shape.rows, shape.row_elements};
  table_ = memory_->tensor(sizes, shape.dtype);
  if (memory_->on_host()) host_table_ = memory_->host_tensor(sizes, shape.dtype);
  place_buffers(shape, one);
  place_indices(indices, one.index_dtype);
  place_pieces();
}

Operands::Operands(Operands& whole, std::int64_t first, std::int64_t count)
    : whole_batch_(whole.whole_batch_),
      first_(first),
      memory_(whole.memory_),
      model_device_(whole.model_device_),
      same_device_(whole.same_device_),
      table_(whole.table_),
      host_table_(whole.host_table_),
      model_(slice(whole.model_, first, count)),
      bounce_(slice(whole.bounce_, first, count)),
      staging_(slice(whole.staging_, first, count)) {
  for (const auto& model : whole.models_) models_.push_back(slice(model, first, count));
  for (const auto& values : whole.values_) values_.push_back(slice(values, first, count));
  for (std::size_t set = 0; set < index_.size(); ++set) {
    index_[set] = slice(whole.index_[set], first, count);
    host_index_[set] = slice(whole.host_index_[set], first, count);
  }
  place_pieces();
}

RawRows Operands::rows(int set) {
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<std::byte*>(tensor.data_ptr()) : nullptr;
  };
  const auto& named = index(set);
  const bool wide = named.scalar_type() == at::kLong;
  return {.table = bytes(table_),
          .model = bytes(model_),
          .values = bytes(values(set)),
          .count = count(),
          .row_bytes = payload_bytes() / count(),
          .index64 = wide ? named.const_data_ptr<std::int64_t>() : nullptr,
          .index32 = wide ? nullptr : named.const_data_ptr<std::int32_t>()};
}

/// A tensor on the model's device: on the same kind of pages as the table if that is the host, and in shared
/// memory if the table is.
at::Tensor Operands::allocate(at::Device device, at::IntArrayRef sizes, at::ScalarType dtype) {
  if (!device.is_cpu()) return at::empty(sizes, at::TensorOptions().dtype(dtype).device(device));
  const auto bytes = c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype));
  const auto kind = page_kind(memory_->placement());
  if (memory_->shared_fd() < 0) return speedtorch::allocate(kind, bytes)->host_tensor(sizes, dtype);
  shared_.push_back(speedtorch::allocate_shared(kind, bytes, memory_->device()));
  return shared_.back()->host_tensor(sizes, dtype);
}

int Operands::shared_fd(const at::Tensor& tensor) const {
  if (tensor.data_ptr() == memory_->data()) return memory_->shared_fd();
  const auto block =
      std::ranges::find_if(shared_, [&](const auto& memory) { return memory->data() == tensor.data_ptr(); });
  return block == shared_.end() ? -1 : (*block)->shared_fd();
}

/// A cell that only reads gets no values: touching half a gigabyte of pages for each wide one took longer
/// than its samples.
void Operands::place_buffers(const RowShape& shape, const TransferCase& one) {
  const std::array<std::int64_t, 2> sizes{whole_batch_, shape.row_elements};
  const auto writes = one.writes();
  models_.resize(static_cast<std::size_t>(destinations_of(one, whole_batch_ * shape.row_bytes())));
  for (auto& model : models_) model = allocate(model_device_, sizes, shape.dtype);
  model_ = models_.front();
  values_.resize(payload_bytes() <= keep_all_values ? 2 * harness::index_sets : 1);
  for (auto& values : values_) {
    if (writes) values = allocate(model_device_, sizes, shape.dtype);
  }
  if (!same_device_) bounce_ = allocate(at::kCPU, sizes, shape.dtype);
  if (!model_device_.is_cpu()) {
    staging_ = speedtorch::allocate(Placement::pinned, payload_bytes(), model_device_)
                   ->host_tensor(sizes, shape.dtype);
  }
}

void Operands::place_indices(const IndexSets& indices, at::ScalarType dtype) {
  for (std::size_t set = 0; set < index_.size(); ++set) {
    auto* rows = const_cast<std::int64_t*>(indices[set].data());  // from_blob's signature; copied at once
    auto& host = host_index_[set];
    host = at::from_blob(rows, {whole_batch_}, at::kLong).to(dtype, /*non_blocking=*/false, /*copy=*/true);
    if (memory_->shared_fd() >= 0) host = allocate(at::kCPU, host.sizes(), dtype).copy_(host);
    index_[set] = host.to(table_.device());
  }
}

void Operands::set_index(int set, const std::vector<std::int64_t>& rows) {
  auto* named = const_cast<std::int64_t*>(rows.data());  // from_blob's signature; copied at once
  host_index_[at(set)].copy_(at::from_blob(named, {whole_batch_}, at::kLong));
  if (!index_[at(set)].is_alias_of(host_index_[at(set)])) index_[at(set)].copy_(host_index_[at(set)]);
}

void Operands::place_pieces() {
  const auto rows = table_.size(0);
  for (int set = 0; set < harness::index_sets; ++set) {
    const auto& values = this->values(Pattern::contiguous, set);
    for (std::int64_t done = 0; done < count();) {
      const auto from = (set * whole_batch_ + first_ + done) % rows;
      const auto length = std::min(count() - done, rows - from);
      const auto piece = table_.narrow(0, from, length);
      pieces_[at(set)].push_back({piece, memory_->on_host() ? host_table_.narrow(0, from, length) : piece,
                                  model_.narrow(0, done, length), slice(values, done, length),
                                  slice(staging_, done, length)});
      done += length;
    }
  }
}

void Operands::use_destination(int number) {
  model_ = models_.at(at(number));
  for (auto& pieces : pieces_) {
    std::int64_t done = 0;
    for (auto& piece : pieces) {
      const auto length = piece.table.size(0);
      piece.model = model_.narrow(0, done, length);
      done += length;
    }
  }
}

std::size_t Operands::values_slot(Pattern pattern, int set) const {
  if (!rotates_values()) return 0;
  return at(set) + (pattern == Pattern::indexed ? 0U : std::size_t{harness::index_sets});
}

void Operands::upload() {
  if (!same_device_) model_.copy_(bounce_);
}

at::Tensor& Operands::download(int set) {
  if (same_device_) return values(set);
  return bounce_.copy_(values(set));
}

void Operands::deliver(at::Tensor result) {
  if (result.device() == model_device_) {
    delivered_ = std::move(result);
  } else {
    model_.copy_(result);
  }
}

void Operands::finish() const {
  if (!model_device_.is_cpu()) speedtorch::synchronize_cuda(model_device_);
}

}  // namespace stbench
