#include "speedtorch/tables/model_factory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/tables/saved_tables.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

std::vector<std::int64_t> table_shape(const at::Tensor& weight, std::int64_t rows) {
  if (!weight.defined() || weight.dim() == 0 || !at::isFloatingType(weight.scalar_type()) ||
      !weight.is_leaf())
    throw ShapeError("a ModelFactory needs a parameter: a floating-point leaf of one dimension or more" +
                     (weight.defined() ? ", not " + shape_of(weight) : std::string()));
  check_in_memory(weight, "the parameter of a ModelFactory");
  auto sizes = weight.sizes().vec();
  sizes.front() = rows;
  return sizes;
}

/// Indices in the order of SpeedTorch's rows: positives, then negatives; int64 on the host.
at::Tensor joined(const at::Tensor& positives, const at::Tensor& negatives, std::int64_t rows) {
  const auto flat = [&](const at::Tensor& index) {
    return RowIndex(index).numbers(rows, at::kCPU).flatten().to(at::kLong);
  };
  return negatives.defined() ? at::cat({flat(positives), flat(negatives)}) : flat(positives).clone();
}

Samples split(const at::Tensor& all, const at::Tensor& positives, const at::Tensor& negatives) {
  const auto first = positives.numel();
  Samples samples{all.narrow(0, 0, first).view(positives.sizes()), {}};
  if (negatives.defined())
    samples.negatives = all.narrow(0, first, negatives.numel()).view(negatives.sizes());
  return samples;
}

}  // namespace

Samples variable_transformer(std::int64_t batch, std::int64_t positives, std::int64_t negatives) {
  if (batch < 0 || positives < 0 || negatives < 0)
    throw ShapeError("a batch of " + std::to_string(batch) + " with " + std::to_string(positives) +
                     " positives and " + std::to_string(negatives) +
                     " negatives each is impossible; all must be 0 or more");
  const auto first = batch * positives;
  Samples samples{at::arange(first, at::kLong).view({batch, positives}), {}};
  if (negatives > 0)
    samples.negatives = at::arange(first, first + batch * negatives, at::kLong).view({batch, negatives});
  return samples;
}

ModelFactory::ModelFactory(at::Tensor weight, std::int64_t rows, const TableOptions& options,
                           Duplicates duplicates)
    : weight_(std::move(weight)),
      sizes_(table_shape(weight_, rows)),
      options_(options),
      duplicates_(duplicates) {
  if (duplicates == Duplicates::last || duplicates == Duplicates::none)
    throw OptionError("duplicates is `last` or `none`, which would lose gradients; use accumulate or reject");
}

ModelFactory::ModelFactory(at::Tensor weight, Table table, Duplicates duplicates)
    : ModelFactory(std::move(weight), table.rows(), {}, duplicates) {
  if (table.sizes() != sizes_ || table.dtype() != weight_.scalar_type()) {
    throw ShapeError("the weight is " + shape_of(weight_) + ", the table " +
                     c10::str(table.dtype(), " ", table.sizes()) + "; both need rows of one shape and dtype");
  }
  table.require_writable();
  table_ = std::move(table);
}

/// @throws OrderError if the parameter has rows that are not written back
void ModelFactory::require_closed() const {
  if (is_open_)
    throw OrderError(
        "the " + std::to_string(rows_.numel()) +
        " rows of the last before_forward_pass() are not written back; after_optimizer_step() or "
        "skip_optimizer_step() must come first");
}

void ModelFactory::init(const Fill& with) {
  require_closed();
  if (table_)
    table_->fill(with);
  else
    table_ = Table::filled(sizes_, weight_.scalar_type(), with, options_);
}

void ModelFactory::zeros_init() { init(Zeros{}); }

void ModelFactory::uniform_init(double low, double high, std::optional<std::uint64_t> seed) {
  init(Uniform{low, high, seed});
}

void ModelFactory::normal_init(double mean, double std, std::optional<std::uint64_t> seed) {
  init(Normal{mean, std, seed});
}

void ModelFactory::custom_init(const Custom& function) { init(function); }

void ModelFactory::custom_init_by_pieces(const ByPieces& function) { init(function); }

/// @throws OrderError if the parameter has rows that are not written back; ShapeError if the table cannot be
/// set to such an array
void ModelFactory::require_settable(at::IntArrayRef sizes, at::ScalarType dtype) const {
  require_closed();
  if (sizes == at::IntArrayRef(sizes_) && dtype == weight_.scalar_type()) return;
  throw ShapeError("the table is " + std::string(c10::toString(weight_.scalar_type())) + " " +
                   c10::str(at::IntArrayRef(sizes_)) + " and cannot be set to " + c10::toString(dtype) + " " +
                   c10::str(sizes));
}

void ModelFactory::load_npy(const std::string& path) {
  const auto found = open_array(path, Access::read_only);
  require_settable(found.shape, found.dtype);
  if (table_)
    table_->load(path);
  else
    table_ = Table::copied_from_file(path, options_);
}

void ModelFactory::load_torch(const std::string& path) {
  const auto array = speedtorch::load_torch(path, {.placement = Placement::libtorch}).tensor();
  require_settable(array.sizes(), array.scalar_type());
  if (table_)
    table_->set(array);
  else
    table_ = Table::from_array(array, options_);
}

/// Makes the parameter the first `count` rows of the buffer, which grows if necessary.
void ModelFactory::show(std::int64_t count) {
  const bool fits = buffer_.defined() && buffer_.device() == weight_.device() && buffer_.size(0) >= count;
  if (!fits) {
    auto sizes = sizes_;
    sizes.front() = buffer_.defined() ? std::max(count, buffer_.size(0) * 5 / 4) : count;
    buffer_ = at::empty(sizes, weight_.options().requires_grad(false));
  }
  weight_.set_data(buffer_.narrow(0, 0, count));
  weight_.mutable_grad().reset();  // it belongs to other rows
  // The node that accumulates the gradient has the old shape. If the caller still holds the last loss, it
  // keeps that node alive, and the next backward pass would refuse the new shape.
  torch::autograd::impl::set_grad_accumulator(weight_, {});
}

void ModelFactory::before_forward_pass(const at::Tensor& positives, const at::Tensor& negatives) {
  const auto& rows_of_table = table();
  require_closed();
  auto named = joined(positives, negatives, rows_of_table.rows());
  DistinctRows distinct{named, {}};
  if (duplicates_ == Duplicates::reject) {
    require_distinct(named, rows_of_table.rows());
    distinct.positions = at::arange(named.numel(), at::kLong);
  } else {
    distinct = distinct_rows(named, rows_of_table.rows());
  }
  const at::NoGradGuard unrecorded;
  show(distinct.rows.numel());
  gather_rows(rows_of_table, distinct.rows, weight_);
  named_ = std::move(named);
  rows_ = std::move(distinct.rows);
  positions_ = split(distinct.positions.to(weight_.device()), positives, negatives);
  is_open_ = true;
}

const at::Tensor& ModelFactory::rows() const {
  if (!rows_.defined()) throw OrderError("there are no rows yet; call before_forward_pass() first");
  return rows_;
}

const Samples& ModelFactory::positions() const {
  (void)rows();
  return positions_;
}

void ModelFactory::after_optimizer_step() {
  if (!is_open_) throw OrderError("there are no rows to write back; call before_forward_pass() first");
  if (weight_.size(0) != rows_.numel()) {
    throw ShapeError("the parameter is " + shape_of(weight_) + " and before_forward_pass() put " +
                     std::to_string(rows_.numel()) + " rows into it; it cannot be written back");
  }
  scatter_rows(table(), rows_, weight_.detach(), Duplicates::none);
  is_open_ = false;
}

void ModelFactory::after_optimizer_step(const at::Tensor& positives, const at::Tensor& negatives) {
  if (is_open_) {
    const auto named = joined(positives, negatives, table().rows());
    if (!at::equal(named, named_))
      throw OrderError("these are not the indices of before_forward_pass() (" +
                       first_difference(named, named_) +
                       "); after_optimizer_step() without arguments uses those");
  }
  after_optimizer_step();
}

void ModelFactory::save_npy(const std::string& path) const { speedtorch::save_npy(table(), path); }

void ModelFactory::save_torch(const std::string& path) const { speedtorch::save_torch(table(), path); }

at::Tensor ModelFactory::host_copy() const { return speedtorch::host_copy(table()); }

const Table& ModelFactory::table() const {
  if (table_) return *table_;
  throw OrderError(
      "the table does not exist yet; call zeros_init(), uniform_init(), normal_init(), custom_init() or a "
      "load first");
}

}  // namespace speedtorch
