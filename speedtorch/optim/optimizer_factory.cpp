#include "speedtorch/optim/optimizer_factory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/new_folder.h"
#include "speedtorch/system/small_file.h"
#include "speedtorch/tables/saved_tables.h"
#include "speedtorch/tables/table_rows.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

constexpr const char* kSteps = "steps";
constexpr const char* kOptimizer = "optimizer.txt";

at::Tensor parameter_named(const torch::nn::Module& model, const std::string& variable) {
  std::string names;
  for (const auto& each : model.named_parameters()) {
    if (each.key() == variable || each.key() == variable + ".weight") return each.value();
    names += (names.empty() ? "" : ", ") + each.key();
  }
  throw OptimizerError("the model has no parameter '" + variable + "'; it has " +
                       (names.empty() ? "none" : names));
}

/// The line that save() writes to identify the optimizer: "Adam: exp_avg, exp_avg_sq".
std::string optimizer_line(const std::string& optimizer, const std::vector<StateTable>& tables) {
  std::string line =
      optimizer.substr(optimizer.rfind(':') + 1) + ":";  // LibTorch's and ours have the same states
  for (std::size_t k = 0; k < tables.size(); ++k) line += (k == 0 ? " " : ", ") + tables[k].name;
  return line;
}

/// The line that save() wrote. @throws FileError
std::string read_line(const std::string& folder) {
  constexpr std::int64_t kLargest = 256;  // the longest line has 60 characters
  const auto text = read_small_file(folder + "/" + kOptimizer, kLargest);
  return text.substr(0, text.find('\n'));
}

std::vector<std::int64_t> with_rows(at::IntArrayRef sizes, std::int64_t rows) {
  return joined_sizes({rows}, sizes.slice(1));
}

/// The bound of rows if no table gives one. A small bound matters: the sort that finds duplicates is slower
/// for a larger one.
std::int64_t past_largest(const at::Tensor& rows) {
  if (rows.numel() == 0) return 0;
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  return std::clamp<std::int64_t>(rows.max().item<std::int64_t>(), 0, most) + 1;
}

/// Returns `rows` rows at the beginning of a buffer, which grows as needed.
at::Tensor buffer_rows(at::Tensor& buffer, std::int64_t rows, at::IntArrayRef table_sizes,
                       at::ScalarType dtype, at::Device device) {
  if (!buffer.defined() || buffer.size(0) < rows || buffer.device() != device) {
    buffer = at::empty(with_rows(table_sizes, rows), at::TensorOptions().dtype(dtype).device(device));
  }
  return buffer.narrow(0, 0, rows);
}

}  // namespace

OptimizerFactory::OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                                   StepCount count)
    : live_(optimizer, parameter), parameter_(parameter), by_row_(count == StepCount::by_row) {
  if (parameter.dim() == 0) throw ShapeError("the parameter is a scalar; it needs rows");
  if (by_row_ && !live_.counts_rows()) {
    throw OptimizerError(
        live_.optimizer_name() +
        " has one count of steps for all rows; use an optimizer of speedtorch/optim/optimizers.h to count "
        "by row");
  }
  if (by_row_ && !parameter.is_cpu()) {
    throw PlacementError("steps are counted by row only if the parameter is on cpu; it is on " +
                         parameter.device().str());
  }
}

OptimizerFactory::OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                                   std::int64_t rows, const TableOptions& home, StepCount count)
    : OptimizerFactory(optimizer, parameter, count) {
  if (rows < 0) throw ShapeError("the tables cannot have " + std::to_string(rows) + " rows");
  table_rows_ = rows;
  tables_ = new_state_tables(with_rows(parameter.sizes(), rows), parameter.scalar_type(), live_.options(),
                             count, home);
  buffers_.resize(tables_.size());
}

OptimizerFactory::OptimizerFactory(torch::optim::Optimizer& optimizer, const torch::nn::Module& model,
                                   const std::string& variable, std::int64_t rows, const TableOptions& home,
                                   StepCount count)
    : OptimizerFactory(optimizer, parameter_named(model, variable), rows, home, count) {}

OptimizerFactory::OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                                   std::vector<Table> tables, StepCount count)
    : OptimizerFactory(optimizer, parameter, count) {
  auto names = state_names(live_.options());
  if (by_row_) names.emplace_back(row_steps_name);
  if (tables.size() != names.size()) {
    throw ShapeError(live_.optimizer_name() + " needs " + std::to_string(names.size()) + " tables; " +
                     std::to_string(tables.size()) + " were given");
  }
  for (std::size_t k = 0; k < tables.size(); ++k) tables_.push_back({names[k], std::move(tables[k])});
  if (!tables_.empty()) table_rows_ = tables_.front().table.rows();
  check_tables();
  buffers_.resize(tables_.size());
}

void OptimizerFactory::check_tables() const {
  for (std::size_t k = 0; k < tables_.size(); ++k) {
    const auto& [name, table] = tables_[k];
    table.require_writable();
    for (std::size_t other = 0; other < k; ++other)
      if (tables_[other].table.memory() == table.memory())
        throw ShapeError("the tables of " + tables_[other].name + " and " + name +
                         " are the same; each needs its own memory");
    const bool counts = k >= states();
    const auto sizes =
        counts ? std::vector<std::int64_t>{*table_rows_} : with_rows(parameter_.sizes(), *table_rows_);
    const auto dtype = counts ? at::kLong : parameter_.scalar_type();
    if (table.sizes() == sizes && table.dtype() == dtype) continue;
    throw ShapeError("the table of " + name + " is " + c10::str(table.dtype(), " ", table.sizes()) + "; " +
                     c10::str(dtype, " ", at::IntArrayRef(sizes)) + " is needed");
  }
}

void OptimizerFactory::check_states() const {
  const auto names = state_names(live_.options());
  const bool same = std::ranges::equal(names, std::span(tables_).first(states()), {}, {}, &StateTable::name);
  if (!same) {
    throw OptimizerError("the options of " + live_.optimizer_name() +
                         " have changed: it has other states than those of the tables");
  }
}

void OptimizerFactory::check_distinct(const at::Tensor& rows) const {
  const bool counts = rows.scalar_type() == at::kInt || rows.scalar_type() == at::kLong;
  if (!counts || rows.dim() != 1)
    throw ShapeError("rows is " + shape_of(rows) + "; int32 or int64 of one dimension is needed");
  require_distinct(rows, table_rows_ ? *table_rows_ : past_largest(rows));
}

void OptimizerFactory::before_forward_pass(const ModelFactory& weight) {
  if (!weight.weight().is_same(parameter_)) {
    throw OptimizerError("the ModelFactory is of another parameter (" + shape_of(weight.weight()) +
                         ") than that of these states (" + shape_of(parameter_) + ")");
  }
  before_forward_pass(WeightRows(weight.rows()));
}

void OptimizerFactory::before_forward_pass(const WeightRows& weight) {
  if (rows_.defined())
    throw OrderError(
        "the states of the " + std::to_string(rows_.numel()) +
        " rows of the last before_forward_pass() are not put back; call after_optimizer_step() or "
        "skip_optimizer_step() first");
  check_states();
  const auto on_host = weight.rows().to(at::kCPU).contiguous();
  check_distinct(on_host);
  const auto device = parameter_.device();
  std::vector<at::Tensor> taken;
  at::Tensor there = on_host;  // copied to the GPU once for all tables there
  for (std::size_t k = 0; k < tables_.size(); ++k) {
    const auto& table = tables_[k].table;
    there = (index_device(table, device).is_cpu() ? on_host : there).to(index_device(table, device));
    taken.push_back(buffer_rows(buffers_[k], on_host.numel(), table.sizes(), table.dtype(), device));
    gather_rows(table, there, taken.back());
  }
  at::Tensor counts;
  if (by_row_) {
    counts = taken.back();
    taken.pop_back();
  }
  live_.set(taken, steps_, counts);
  were_set_ = !live_.tables().empty();
  rows_ = on_host.clone();
}

void OptimizerFactory::after_optimizer_step() {
  if (!rows_.defined()) throw OrderError("after_optimizer_step() without before_forward_pass()");
  check_states();
  auto states = live_.tables();
  if (by_row_ && states.size() == this->states()) states.push_back(live_.row_steps());
  if (states.empty() && !were_set_) return rows_.reset();  // nothing was stepped
  if (states.size() != tables_.size())
    throw OptimizerError("the states of " + live_.optimizer_name() +
                         " for the rows of before_forward_pass() are missing");
  for (std::size_t k = 0; k < tables_.size(); ++k) {
    const auto& [name, table] = tables_[k];
    if (states[k].defined() && states[k].sizes() == with_rows(table.sizes(), rows_.numel()) &&
        states[k].scalar_type() == table.dtype())
      continue;
    throw OptimizerError("the state " + name + " of " + live_.optimizer_name() + " is not that of the " +
                         std::to_string(rows_.numel()) + " rows of before_forward_pass()");
  }
  at::Tensor there = rows_;
  for (std::size_t k = 0; k < tables_.size(); ++k) {
    const auto& table = tables_[k].table;
    const auto where = index_device(table, states[k].device());
    there = (where.is_cpu() ? rows_ : there).to(where);
    scatter_rows(table, there, states[k].contiguous(), Duplicates::none);
  }
  steps_ = live_.steps().value_or(steps_ + 1);
  rows_.reset();
}

void OptimizerFactory::after_optimizer_step(const at::Tensor& rows) {
  if (rows_.defined()) {
    const auto given = rows.to(at::kCPU);
    if (given.dim() != 1 || given.numel() != rows_.numel() ||
        !at::equal(given.to(rows_.scalar_type()), rows_))
      throw OrderError("after_optimizer_step() names other rows than before_forward_pass() did: " +
                       first_difference(given, rows_));
  }
  after_optimizer_step();
}

void OptimizerFactory::set_steps(std::int64_t steps) {
  if (steps < 0) throw OptionError("steps is " + std::to_string(steps) + "; 0 or more is needed");
  steps_ = steps;
}

void OptimizerFactory::save(const std::string& folder) const {
  if (rows_.defined())
    throw OrderError(
        "save() between before_forward_pass() and after_optimizer_step(): rows are in the optimizer");
  NewFolder made(folder);
  for (const auto& [name, table] : tables_) save_npy(table, state_file(made.path(), name));
  const auto steps = at::full({1}, steps_, at::kLong);
  save_npy(Table::from_array(steps, {.placement = Placement::libtorch}), state_file(made.path(), kSteps));
  replace_file(made.path() + "/" + kOptimizer, optimizer_line(live_.optimizer_name(), tables_) + "\n");
  made.publish();
}

/// @throws OptimizerError if the folder is of another optimizer, or of the same one with other states;
/// FileError if the folder cannot be read
void OptimizerFactory::check_saved(const std::string& folder) const {
  const auto counts = state_file(folder, row_steps_name);
  std::error_code error;
  const bool counted = std::filesystem::exists(counts, error);
  if (error) {
    errno = error.value();
    refuse_path(counts, "cannot be looked for");
  }
  if (counted != by_row_) {
    throw OptimizerError("'" + base_name(folder) + "' was saved " + (counted ? "with" : "without") +
                         " counts by row, and this is " + (by_row_ ? "with" : "without"));
  }
  const auto found = read_line(folder), needed = optimizer_line(live_.optimizer_name(), tables_);
  if (found != needed)
    throw OptimizerError("'" + base_name(folder) + "' has the states of '" + found + "', and this is '" +
                         needed + "'");
}

void OptimizerFactory::load(const std::string& folder) {
  if (rows_.defined())
    throw OrderError(
        "load() between before_forward_pass() and after_optimizer_step(): rows are in the optimizer");
  check_states();
  check_saved(folder);
  const auto open = [&](const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype) {
    auto file = MappedFile::open(state_file(folder, name), Access::read_only);
    if (file->shape() == sizes && file->dtype() == dtype) return file;
    throw ShapeError("'" + file->name() + "' is " + shape_of(file->array()) + "; " +
                     c10::str(dtype, " ", sizes) + " is needed");
  };
  std::vector<std::shared_ptr<MappedFile>> files;
  for (const auto& [name, table] : tables_) files.push_back(open(name, table.sizes(), table.dtype()));
  const auto steps = open(kSteps, {1}, at::kLong)->array().const_data_ptr<std::int64_t>()[0];
  if (steps < 0)
    throw OptimizerError("'steps.npy' says " + std::to_string(steps) + " steps; 0 or more is needed");
  for (std::size_t k = 0; k < tables_.size(); ++k) tables_[k].table.set(files[k]->array());
  steps_ = steps;
}

std::int64_t OptimizerFactory::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& each : tables_) bytes += each.table.bytes();
  return bytes;
}

}  // namespace speedtorch
