#include "speedtorch/optimizer_factory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "speedtorch/error.h"
#include "speedtorch/mapped_file.h"
#include "speedtorch/new_file.h"
#include "speedtorch/rows.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr const char* kSteps = "steps";
constexpr const char* kRowSteps = "row_steps";

at::Tensor parameter_named(const torch::nn::Module& model, const std::string& variable) {
  std::string names;
  for (const auto& each : model.named_parameters()) {
    if (each.key() == variable || each.key() == variable + ".weight") return each.value();
    names += (names.empty() ? "" : ", ") + each.key();
  }
  throw OptimizerError("the model has no parameter '" + variable + "'; it has " +
                       (names.empty() ? "none" : names));
}

Fill begin_with(double value) {
  if (value == 0) return Zeros{};
  return Custom([value](at::Tensor& rows, std::int64_t /*first_row*/) { rows.fill_(value); });
}

std::string file_of(const std::string& folder, const std::string& name) {
  return folder + "/" + name + ".npy";
}

/// A folder that is removed again unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {
    if (::mkdir(path_.c_str(), 0777) != 0) refuse_file(base_name(path_), "cannot be made");
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

/// Waits until the names in a folder are on the disk.
void sync_folder(const std::string& folder) {
  const Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open.get() < 0 || ::fsync(open.get()) != 0) refuse_file(base_name(folder), "cannot be written");
}

/// The table as a tensor on the side from which a tensor on `model` is reached best.
at::Tensor reached_from(const Table& table, at::Device model) {
  const bool by_host = table.memory()->on_host() && (model.is_cpu() || !needs_cuda(table.placement()));
  return by_host ? table.host_tensor() : table.tensor();
}

void take_rows(const at::Tensor& table, const at::Tensor& rows, at::Tensor& out) {
  if (table.device() == out.device()) return gather_rows(table, rows, out);
  auto staged = at::empty(out.sizes(), table.options());
  gather_rows(table, rows, staged);
  out.copy_(staged);
}

void put_rows(const at::Tensor& values, const at::Tensor& rows, at::Tensor table) {
  scatter_rows(values.contiguous().to(table.device()), rows, table);
}

/// `rows` rows at the beginning of a buffer, which grows as needed.
at::Tensor front_of(at::Tensor& buffer, std::int64_t rows, at::IntArrayRef table_sizes, at::ScalarType dtype,
                    at::Device device) {
  if (!buffer.defined() || buffer.size(0) < rows || buffer.device() != device) {
    auto sizes = table_sizes.vec();
    sizes[0] = rows;
    buffer = at::empty(sizes, at::TensorOptions().dtype(dtype).device(device));
  }
  return buffer.narrow(0, 0, rows);
}

}  // namespace

OptimizerFactory::OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                                   std::int64_t rows, const Home& home, StepCount count)
    : live_(optimizer, parameter), parameter_(parameter), by_row_(count == StepCount::by_row) {
  if (parameter.dim() == 0) throw ShapeError("the parameter is a scalar; it needs rows");
  if (by_row_ && !live_.counts_rows()) {
    throw OptimizerError(
        live_.optimizer_name() +
        " has one count of steps for all rows; those of speedtorch/optim/optimizers.h can count "
        "by row");
  }
  if (by_row_ && !parameter.is_cpu()) {
    throw PlacementError("rows count their steps where the parameter is on cpu; it is on " +
                         parameter.device().str());
  }
  if (home.file.empty()) {
    make_tables(parameter, rows, home);
  } else {
    NewFolder folder(home.file);
    make_tables(parameter, rows, home);
    folder.keep();
  }
}

OptimizerFactory::OptimizerFactory(torch::optim::Optimizer& optimizer, const torch::nn::Module& model,
                                   const std::string& variable, std::int64_t rows, const Home& home,
                                   StepCount count)
    : OptimizerFactory(optimizer, parameter_named(model, variable), rows, home, count) {}

void OptimizerFactory::make_tables(const at::Tensor& parameter, std::int64_t rows, const Home& home) {
  const auto home_of = [&](const std::string& name) {
    Home one = home;
    if (!home.file.empty()) one.file = file_of(home.file, name);
    return one;
  };
  auto sizes = parameter.sizes().vec();
  sizes[0] = rows;
  for (const auto& [name, value] : state_begins(live_.options()))
    tables_.push_back(
        {name, Table::filled(sizes, parameter.scalar_type(), begin_with(value), home_of(name))});
  if (by_row_) tables_.push_back({kRowSteps, Table::filled({rows}, at::kLong, Zeros{}, home_of(kRowSteps))});
  buffers_.resize(tables_.size());
}

void OptimizerFactory::check_states() const {
  const auto names = state_names(live_.options());
  const bool same = std::ranges::equal(names, std::span(tables_).first(states()), {}, {}, &StateTable::name);
  if (!same) {
    throw OptimizerError("the options of " + live_.optimizer_name() +
                         " have changed: it has other states than those of the tables");
  }
}

void OptimizerFactory::check_distinct(const at::Tensor& rows) {
  const bool counts = rows.scalar_type() == at::kInt || rows.scalar_type() == at::kLong;
  if (!counts || rows.dim() != 1)
    throw ShapeError("rows is " + shape_of(rows) + "; int32 or int64 of one dimension is needed");
  if (tables_.empty()) return;
  const auto table_rows = tables_.front().table.rows();
  if (rows.scalar_type() == at::kLong)
    duplicates_.find(rows.const_data_ptr<std::int64_t>(), rows.numel(), table_rows, parallel_for);
  else
    duplicates_.find(rows.const_data_ptr<std::int32_t>(), rows.numel(), table_rows, parallel_for);
  if (duplicates_.unique() == rows.numel()) return;
  const auto begins = duplicates_.begins();
  for (std::size_t k = 0;; ++k) {
    if (begins[k + 1] - begins[k] < 2) continue;
    const auto* const places = duplicates_.positions().data() + begins[k];
    throw DuplicateError(duplicates_.rows()[k], places[0], places[1]);
  }
}

void OptimizerFactory::before_forward_pass(const at::Tensor& rows) {
  check_states();
  const auto on_host = rows.to(at::kCPU).contiguous();
  check_distinct(on_host);
  const auto device = parameter_.device();
  std::vector<at::Tensor> taken;
  at::Tensor there;  // the rows where the tables are
  for (std::size_t k = 0; k < tables_.size(); ++k) {
    const auto& table = tables_[k].table;
    const auto from = reached_from(table, device);
    if (!there.defined()) there = on_host.to(from.device());
    taken.push_back(front_of(buffers_[k], rows.numel(), table.sizes(), table.dtype(), device));
    take_rows(from, there, taken.back());
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
                         " for the rows that were taken are gone");
  for (std::size_t k = 0; k < tables_.size(); ++k) {
    auto sizes = tables_[k].table.sizes().vec();
    sizes[0] = rows_.numel();
    if (states[k].defined() && states[k].sizes() == sizes) continue;
    throw OptimizerError("the state " + tables_[k].name + " of " + live_.optimizer_name() +
                         " is not that of the " + std::to_string(rows_.numel()) + " rows that were taken");
  }
  at::Tensor there;
  for (std::size_t k = 0; k < tables_.size(); ++k) {
    auto to = reached_from(tables_[k].table, states[k].device());
    if (!there.defined()) there = rows_.to(to.device());
    put_rows(states[k], there, to);
  }
  steps_ = live_.steps().value_or(steps_ + 1);
  rows_.reset();
}

void OptimizerFactory::after_optimizer_step(const at::Tensor& rows) {
  if (rows_.defined()) {
    const auto given = rows.to(at::kCPU);
    if (given.dim() != 1 || given.numel() != rows_.numel() ||
        !at::equal(given.to(rows_.scalar_type()), rows_))
      throw OrderError("after_optimizer_step() names other rows than before_forward_pass() did");
  }
  after_optimizer_step();
}

void OptimizerFactory::save(const std::string& folder) const {
  if (rows_.defined())
    throw OrderError(
        "save() between before_forward_pass() and after_optimizer_step(): rows are in the optimizer");
  NewFolder partial(folder + ".partial-" + std::to_string(::getpid()));
  const auto write = [&](const std::string& name, const at::Tensor& array) {
    Table::from_array(array, Home{.placement = Placement::mapped, .file = file_of(partial.path(), name)});
  };
  for (const auto& [name, table] : tables_) write(name, reached_from(table, at::kCPU));
  write(kSteps, at::full({1}, steps_, at::kLong));
  sync_folder(partial.path());
  if (::rename(partial.path().c_str(), folder.c_str()) != 0)
    refuse_file(base_name(folder), "cannot be made of what was saved");
  partial.keep();
  const auto parent = std::filesystem::path(folder).parent_path();
  sync_folder(parent.empty() ? "." : parent.string());
}

void OptimizerFactory::load(const std::string& folder) {
  const auto open = [&](const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype) {
    auto file = MappedFile::open(file_of(folder, name), Access::read_only);
    if (file->shape() == sizes && file->dtype() == dtype) return file;
    throw ShapeError("'" + file->name() + "' is " + shape_of(file->array()) + "; " +
                     c10::str(dtype, " ", sizes) + " is needed");
  };
  const bool counted = std::filesystem::exists(file_of(folder, kRowSteps));
  if (counted != by_row_) {
    throw OptimizerError("'" + base_name(folder) + "' was saved " + (counted ? "with" : "without") +
                         " counts by row, and this is " + (by_row_ ? "with" : "without"));
  }
  std::vector<std::shared_ptr<MappedFile>> files;
  for (const auto& [name, table] : tables_) files.push_back(open(name, table.sizes(), table.dtype()));
  const auto steps = open(kSteps, {1}, at::kLong)->array().const_data_ptr<std::int64_t>()[0];
  for (std::size_t k = 0; k < tables_.size(); ++k)
    reached_from(tables_[k].table, at::kCPU).copy_(files[k]->array());
  steps_ = steps;
  rows_.reset();
}

std::int64_t OptimizerFactory::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& each : tables_) bytes += each.table.bytes();
  return bytes;
}

}  // namespace speedtorch
