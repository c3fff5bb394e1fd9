/// Writes every kind of file that the library writes, once, and reads it again. Started by scripts/inject,
/// which lets system calls fail, and by scripts/kill-storm, which kills it.
///
///   file_program save_npy|save_torch|mapped|checkpoint|contiguous|factory PATH
///
/// The file (for `factory`, the folder) at PATH is the same in each run. `mapped` and `factory` never replace
/// another. Exit status: 0 if it was written and read back equal; 3 for a typed error (its kind and text on
/// stderr); 4 for any other exception, or if it was read back different.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/optim/adam.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/files/npy.h"
#include "speedtorch/infinity/infinity_batch.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/tables/saved_tables.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {
namespace {

class NotAsWritten : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void require(bool same) {
  if (!same) throw NotAsWritten("what was read is not what was written");
}

at::Tensor numbers() { return at::arange(4000 * 32, at::kFloat).reshape({4000, 32}); }

Table table_of() { return Table::from_array(numbers(), {.placement = Placement::libtorch}); }

void npy(const std::string& path) {
  save_npy(table_of(), path);
  require(Table::copied_from_file(path, {.placement = Placement::libtorch}).tensor().equal(numbers()));
}

void torchs(const std::string& path) {
  save_torch(table_of(), path);
  require(load_torch(path, {.placement = Placement::libtorch}).tensor().equal(numbers()));
}

/// Creates the file whole, opens it again, writes half of its rows with the values that they have, and
/// flushes them.
void mapped(const std::string& path) {
  const ByPieces fill = [&](at::Tensor& rows, std::int64_t first) {
    rows.copy_(numbers().narrow(0, first, rows.size(0)));
  };
  static_cast<void>(
      Table::filled({4000, 32}, at::kFloat, fill, {.placement = Placement::mapped, .file = path}));
  const auto file = MappedFile::open(path, Access::read_write);
  const auto index = at::arange(0, 4000, 2, at::kLong);
  scatter_rows(*file, index, numbers().index_select(0, index));
  file->flush();
  require(file->array().equal(numbers()));
}

/// A model that was trained for an epoch, with its optimizer and whatever else training needs.
class Training {
 public:
  Training() {
    const at::Tensor inputs = at::randn({64, 8});
    batch_.set_model(model_);
    batch_.set_criterion(criterion_);
    batch_.set_optimizer(optimizer_);
    batch_.set_data(infinity::Data::of_tensors({inputs}, {inputs.sum(1, true)}, {.batch = 32}));
  }
  InfinityBatch& batch() { return batch_; }
  [[nodiscard]] at::Tensor weight() const { return model_->parameters()[0]; }

 private:
  torch::nn::Sequential model_{torch::nn::Linear(8, 64), torch::nn::Linear(64, 1)};
  torch::nn::MSELoss criterion_;
  torch::optim::Adam optimizer_{model_->parameters()};
  InfinityBatch batch_;
};

void checkpoint(const std::string& path) {
  at::manual_seed(1);
  Training trained;
  trained.batch()(1);
  trained.batch().save(path);
  Training resumed;
  resumed.batch().resume(path);
  require(resumed.weight().equal(trained.weight()));
}

void contiguous(const std::string& path) {
  const auto parameter = [&] { return numbers().requires_grad_(); };
  const auto moments = [](const ContiguousOptimizer& optimizer) {
    return optimizer.state().front().tensors.front().second;
  };
  at::Tensor weight = parameter();
  ContiguousOptimizer optimizer({weight}, AdamOptions{});
  weight.mutable_grad().copy_(numbers());
  optimizer.step();
  optimizer.save(path);
  ContiguousOptimizer again({parameter()}, AdamOptions{});
  again.load(path);
  require(moments(again).equal(moments(optimizer)));
}

void factory(const std::string& path) {
  at::Tensor weight = at::zeros({1, 32}).requires_grad_();
  optim::Adamax optimizer({weight}, {.lr = 0.05});
  OptimizerFactory states(optimizer, weight, 4000, {.placement = Placement::libtorch});
  for (const auto& state : states.tables()) state.table.tensor().copy_(numbers());
  states.save(path);
  OptimizerFactory again(optimizer, weight, 4000, {.placement = Placement::libtorch});
  again.load(path);
  require(again.tables().front().table.tensor().equal(numbers()));
}

int refused(const char* kind, const std::string& text, int status) {
  std::fprintf(stderr, "%s: %s\n", kind, text.c_str());
  return status;
}

int run(const std::string& kind, const std::string& path) {
  const std::map<std::string, void (*)(const std::string&)> kinds = {
      {"save_npy", npy},          {"save_torch", torchs},     {"mapped", mapped},
      {"checkpoint", checkpoint}, {"contiguous", contiguous}, {"factory", factory}};
  const auto found = kinds.find(kind);
  if (found == kinds.end()) return refused("no such kind", kind, 4);
  try {
    found->second(path);
    return 0;
  } catch (const NotAsWritten& error) {
    return refused("wrong", error.what(), 4);
  } catch (const Error& error) {
    return refused("speedtorch", error.what(), 3);
  } catch (const NpyError& error) {
    return refused("speedtorch", error.what(), 3);
  } catch (const std::bad_alloc&) {
    return refused("memory", "out of memory", 3);
  } catch (const c10::Error& error) {
    return refused("libtorch", error.what_without_backtrace(), 3);
  } catch (const std::exception& error) {
    return refused("untyped", std::string(typeid(error).name()) + ": " + error.what(), 4);
  }
}

bool has_ended = false;

/// LibTorch's OpenMP calls exit(1) if it cannot start a thread.
void end_as_of_a_library() {
  if (has_ended) return;
  refused("libtorch", "a library of LibTorch's ended the program", 3);
  std::_Exit(3);
}

}  // namespace
}  // namespace speedtorch

int main(int argc, char** argv) {
  // In a log of system calls this marks where the program starts, after its libraries.
  ::fcntl(0, F_GETFD);
  if (argc != 3) return speedtorch::refused("usage", "file_program KIND PATH", 4);
  std::atexit(speedtorch::end_as_of_a_library);
  const int status = speedtorch::run(argv[1], argv[2]);
  speedtorch::has_ended = true;
  return status;
}
