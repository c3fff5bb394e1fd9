#include "speedtorch/optim/sparse_rows.h"

#include <ATen/ops/full.h>

#include <utility>
#include <variant>

#include "speedtorch/error.h"
#include "speedtorch/kernels/steps/sparse_step.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/optim/device_step.h"
#include "speedtorch/optim/state_tables.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/rows/row_overlap.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

void require_defined(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) throw ShapeError(name + " is undefined");
}

void check_beside(const at::Tensor& table, const at::Tensor& tensor, const std::string& name) {
  require_defined(tensor, name);
  if (tensor.device() == table.device()) return;
  throw PlacementError("the table is on " + table.device().str() + ", " + name + " on " +
                       tensor.device().str() + "; all must be on one device");
}

void check_table(const at::Tensor& table) {
  require_defined(table, "the table");
  if (!table.is_cpu() && !table.is_cuda()) {
    throw PlacementError("the table is on " + table.device().str() +
                         "; SparseRows works on cpu tensors and on cuda tensors");
  }
  check_in_memory(table, "the table");
  check_writable(table, "the table");
  const bool floating = table.scalar_type() == at::kFloat || table.scalar_type() == at::kDouble;
  if (floating && table.layout() == at::kStrided && table.dim() > 0 && table.is_contiguous()) return;
  throw ShapeError("the table is " + layout_of(table) +
                   "; a contiguous float32 or float64 tensor with at least one dimension is needed");
}

/// The tensor's bytes as one row.
kernels::ConstRows block_of(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), bytes > 0 ? 1 : 0, bytes, bytes};
}

void check_no_overlap(const at::Tensor& a, const at::Tensor& b, const std::string& names) {
  if (overlap(block_of(a), block_of(b))) throw ShapeError(names + " overlap; each needs its own memory");
}

void check_state(const at::Tensor& state, const std::string& name, const at::Tensor& table) {
  check_beside(table, state, "the state " + name);
  if (is_lazy(state)) refuse_lazy(state, "the state " + name);
  if (is_read_only(state)) refuse_read_only("the state " + name);
  if (state.scalar_type() == table.scalar_type() && state.sizes() == table.sizes() && state.is_contiguous())
    return;
  throw ShapeError("the state " + name + " is " + layout_of(state) + ", the table " + shape_of(table) +
                   "; a contiguous tensor of the table's shape and dtype is needed");
}

/// @throws PlacementError
void check_counts(const at::Tensor& table) {
  if (table.is_cpu()) return;
  throw PlacementError("rows count their steps in tables of the host; this one is on " +
                       table.device().str());
}

void check_row_steps(const at::Tensor& steps, const at::Tensor& table) {
  check_counts(table);
  check_beside(table, steps, "row_steps");
  check_in_memory(steps, "row_steps");
  check_writable(steps, "row_steps");
  const bool counts = steps.scalar_type() == at::kInt || steps.scalar_type() == at::kLong;
  if (counts && steps.dim() == 1 && steps.size(0) == table.size(0) && steps.is_contiguous()) return;
  throw ShapeError("row_steps is " + layout_of(steps) + ", the table " + shape_of(table) +
                   "; a contiguous int32 or int64 tensor with one number per row is needed");
}

template <class T>
kernels::StepTables<T> tables_of(const at::Tensor& table, const std::vector<at::Tensor>& states) {
  const auto columns = c10::multiply_integers(table.sizes().slice(1));
  kernels::StepTables<T> tables{static_cast<T*>(table.data_ptr()), {}, table.size(0), columns};
  for (std::size_t k = 0; k < states.size(); ++k) tables.states[k] = static_cast<T*>(states[k].data_ptr());
  return tables;
}

/// @throws PlacementError
void check_reach(const at::Tensor& table, Placement states) {
  if (table.is_cpu() ? states != Placement::device : needs_cuda(states)) return;
  throw PlacementError("states in " + std::string(to_string(states)) + " memory, and the table is on " +
                       table.device().str() + ", which does not reach them");
}

}  // namespace

/// The fused step for the table's dtype and device.
class SparseRows::Steps {
 public:
  Steps(const UpdateOptions& options, const at::Tensor& table, const std::vector<at::Tensor>& states)
      : step_(table.scalar_type() == at::kFloat ? make<float>(options, table, states)
                                                : make<double>(options, table, states)) {}

  void set_options(const UpdateOptions& options) {
    std::visit(
        [&]<class T>(Of<T>& of_dtype) {
          of_dtype.update = kernels::make_update<T>(options);
          of_dtype.on_host.set_update(of_dtype.update);
        },
        step_);
  }

  void run(const at::Tensor& index, const at::Tensor& grad, const at::Tensor& row_steps, std::int64_t step) {
    std::visit(
        [&]<class T>(Of<T>& of_dtype) {
          if (grad.is_cuda())
            return of_dtype.on_gpu.rows(of_dtype.update, of_dtype.tables, index, grad, step);
          with_index(index, [&](const auto* numbers) {
            of_dtype.on_host.run(numbers, grad.size(0), grad.const_data_ptr<T>(), steps_of(row_steps, step),
                                 parallel_for);
          });
        },
        step_);
  }

 private:
  template <class T>
  struct Of {
    kernels::AnyUpdate<T> update;
    kernels::StepTables<T> tables;
    kernels::SparseStep<T> on_host;
    DeviceStep<T> on_gpu;
  };
  using Any = std::variant<Of<float>, Of<double>>;

  template <class T>
  static Any make(const UpdateOptions& options, const at::Tensor& table,
                  const std::vector<at::Tensor>& states) {
    const auto update = kernels::make_update<T>(options);
    const auto tables = tables_of<T>(table, states);
    return Of<T>{update, tables, kernels::SparseStep<T>(update, tables), {}};
  }

  static kernels::RowSteps steps_of(const at::Tensor& row_steps, std::int64_t step) {
    if (!row_steps.defined()) return step;
    if (row_steps.scalar_type() == at::kLong) return {nullptr, row_steps.data_ptr<std::int64_t>()};
    return {row_steps.data_ptr<std::int32_t>(), nullptr};
  }

  Any step_;
};

SparseRows::SparseRows(at::Tensor table, const UpdateOptions& options, const TableOptions& states,
                       StepCount count)
    : table_(std::move(table)) {
  check_table(table_);
  if (count == StepCount::by_row) check_counts(table_);
  make_states(options, states, count);
  prepare(options);
}

SparseRows::SparseRows(at::Tensor table, const UpdateOptions& options, std::vector<at::Tensor> states,
                       at::Tensor row_steps)
    : table_(std::move(table)), states_(std::move(states)), row_steps_(std::move(row_steps)) {
  check_table(table_);
  if (row_steps_.defined()) check_row_steps(row_steps_, table_);
  prepare(options);
}

void SparseRows::make_states(const UpdateOptions& options, const TableOptions& home, StepCount count) {
  if (table_.is_cuda() && home.placement == Placement::libtorch) {  // LibTorch's own memory on that GPU
    const auto like = table_.options().requires_grad(false);
    for (const auto& begin : state_begins(options))
      states_.push_back(at::full(table_.sizes(), begin.value, like));
    return;
  }
  check_reach(table_, home.placement);
  for (const auto& [name, made] :
       new_state_tables(table_.sizes(), table_.scalar_type(), options, count, home))
    states_.push_back(table_.is_cpu() ? made.host_tensor() : made.tensor());
  if (count == StepCount::shared) return;
  row_steps_ = states_.back();
  states_.pop_back();
}

SparseRows::~SparseRows() = default;
SparseRows::SparseRows(SparseRows&&) noexcept = default;
SparseRows& SparseRows::operator=(SparseRows&&) noexcept = default;

void SparseRows::prepare(const UpdateOptions& options) {
  names_ = state_names(options);
  if (states_.size() != names_.size()) {
    throw ShapeError("the optimizer has " + std::to_string(names_.size()) + " states for each element; " +
                     std::to_string(states_.size()) + " were given");
  }
  for (std::size_t k = 0; k < states_.size(); ++k) {
    check_state(states_[k], names_[k], table_);
    check_no_overlap(table_, states_[k], "the table and the state " + names_[k]);
    for (std::size_t other = 0; other < k; ++other)
      check_no_overlap(states_[other], states_[k], "the states " + names_[other] + " and " + names_[k]);
  }
  options_ = options;
  run_ = std::make_unique<Steps>(options, table_, states_);
}

/// @throws ShapeError if a step writes to the memory of `read`
void SparseRows::check_apart(const at::Tensor& read, const char* name) const {
  const auto bytes = block_of(read);
  const auto check = [&](const at::Tensor& written, const char* kind, const std::string& its_name = {}) {
    if (overlap(block_of(written), bytes))
      throw ShapeError(kind + its_name + " and " + name + " overlap; each needs its own memory");
  };
  check(table_, "the table");
  for (std::size_t k = 0; k < states_.size(); ++k) check(states_[k], "the state ", names_[k]);
  if (row_steps_.defined()) check(row_steps_, "row_steps");
}

void SparseRows::step(const at::Tensor& index, const at::Tensor& grad) {
  require_defined(index, "the index");
  require_defined(grad, "grad");
  if (is_lazy(index) || is_lazy(grad)) return step(resolved(index), resolved(grad));
  if ((index.scalar_type() != at::kLong && index.scalar_type() != at::kInt) || !index.is_contiguous())
    throw ShapeError("the index is " + layout_of(index) + "; a contiguous int32 or int64 tensor is needed");
  check_beside(table_, index, "the index");
  check_beside(table_, grad, "grad");
  const bool fits = grad.dim() == table_.dim() && grad.size(0) == index.numel() &&
                    grad.sizes().slice(1) == table_.sizes().slice(1) &&
                    grad.scalar_type() == table_.scalar_type();
  if (fits && !grad.is_contiguous())
    throw ShapeError("grad is " + layout_of(grad) +
                     ", and its rows must lie one after the other; call contiguous()");
  if (!fits) {
    throw ShapeError("table " + shape_of(table_) + ", index " + shape_of(index) + " and grad " +
                     shape_of(grad) +
                     " do not fit: grad needs one contiguous row of the table's shape and dtype per index");
  }
  check_apart(grad, "grad");
  check_apart(index, "the index");
  run_->run(index, grad, row_steps_, steps_ + 1);
  ++steps_;
  bump_version(table_);
  for (const auto& state : states_) bump_version(state);
  if (row_steps_.defined()) bump_version(row_steps_);
}

std::vector<State> SparseRows::states() const {
  std::vector<State> states;
  for (std::size_t k = 0; k < states_.size(); ++k) states.push_back({names_[k], states_[k]});
  return states;
}

void SparseRows::set_steps(std::int64_t steps) {
  if (steps < 0) throw OptionError("steps is " + std::to_string(steps) + "; 0 or more is needed");
  steps_ = steps;
}

void SparseRows::set_options(const UpdateOptions& options) {
  const auto names = state_names(options);
  if (options.index() != options_.index() || names != names_)
    throw OptionError(
        "set_options() takes options of the same optimizer with the same states; make a new SparseRows");
  options_ = options;
  run_->set_options(options);
}

}  // namespace speedtorch
