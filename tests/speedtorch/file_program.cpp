/// Writes every kind of file that the library writes, once, and reads it again. Started by scripts/inject,
/// which lets system calls fail, and by scripts/kill-storm, which kills it.
///
///   file_program KIND PATH
///
/// The file at PATH (for `factory` and `sharded`, the folder) is the same in each run. `mapped`, `shared`,
/// `factory` and `sharded` never replace another. `row_cache_through` and `row_cache_back` write other values
/// into all rows of a table, which they create if it is not there. `cached_through` and `cached_back` are for
/// what such a run has left: they finish its work, and each row must be an old one or a new one. `tune`
/// stores its plan in the user's cache instead. Exit status: 0 if it was written and read back equal; 3 for a
/// typed error (its kind and text on stderr); 4 for any other exception, or if it was read back different.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/optim/adam.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/files/npy.h"
#include "speedtorch/files/row_cache.h"
#include "speedtorch/infinity/infinity_batch.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/rows/plan_text.h"
#include "speedtorch/rows/tune.h"
#include "speedtorch/sharded/sharded_files.h"
#include "speedtorch/shared/shared_table.h"
#include "speedtorch/tables/saved_tables.h"
#include "speedtorch/tables/table.h"
#include "speedtorch/threads.h"
#include "tests/speedtorch/sharded/ranks.h"

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

/// Writes all rows of a table, with the values that they have, as a process does that attached it.
void share(const Table& table) {
  const auto name = "file_program " + std::to_string(::getpid());
  const auto held = SharedTable::hold(name, table, {.writers = Writers::row_locks});
  const auto attached = SharedTable::attach(name, {.access = Access::read_write});
  attached.scatter(at::arange(4000, at::kLong), numbers());
  attached.flush();
  require(table.host_tensor().equal(numbers()));
}

void shared(const std::string& path) {
  share(Table::from_array(numbers(), {.placement = Placement::mapped, .file = path}));
  share(Table::from_array(numbers(), {.placement = Placement::pageable, .shared = true}));
}

/// Does the work as both ranks of a group of two. Throws what a rank threw.
void as_two_ranks(const std::function<void(const RankGroup&)>& work) {
  const test::HeldPort port;
  std::array<std::exception_ptr, 2> thrown;
  const auto as_rank = [&](int rank) {
    try {
      work({rank, 2, test::on_this_host(port, std::chrono::seconds(20))});
    } catch (...) {
      thrown.at(static_cast<std::size_t>(rank)) = std::current_exception();
    }
  };
  auto second = start_thread("the second rank", [&] { as_rank(1); });
  as_rank(0);
  second.join();
  for (const auto& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

void sharded(const std::string& path) {
  as_two_ranks([&](const RankGroup& group) {
    save_sharded(ShardedTable::from_array(group, numbers(), {.shard = {.placement = Placement::libtorch}}),
                 path);
    auto loaded = load_sharded(group, path,
                               {.sharding = Sharding::cyclic, .shard = {.placement = Placement::libtorch}});
    require(loaded.gather(at::arange(4000, at::kLong)).equal(numbers()));
  });
}

at::Tensor new_numbers() { return numbers().neg().sub(1); }

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// Writes batches of neighbours, then batches of rows without neighbours, and reads others between.
void row_cache(const std::string& path, CacheWrites writes) {
  if (!exists(path)) npy(path);
  const auto cache = RowCache::open(path, {.bytes = 100'000, .writes = writes});
  at::Tensor out = at::empty({200, 32});
  for (std::int64_t batch = 0; batch < 20; ++batch) {
    const at::Tensor next = at::arange(200 * batch, 200 * (batch + 1), at::kLong);
    const at::Tensor rows = batch < 10 ? next : 2000 + next * 1543 % 2000;
    cache->scatter(rows, new_numbers().index_select(0, rows));
    cache->gather(at::arange(batch, 4000, 20, at::kLong), out);
  }
  cache->flush();
  cache->gather(at::arange(0, 200, at::kLong), out);
  require(out.equal(new_numbers().narrow(0, 0, 200)));
  require(Table::copied_from_file(path, {.placement = Placement::libtorch}).tensor().equal(new_numbers()));
}

/// @param torn the most rows that may be neither old nor new
void cached(const std::string& path, std::int64_t torn) {
  if (!exists(path)) return;
  RowCache::open(path, {.bytes = 100'000, .writes = CacheWrites::through});
  const at::Tensor found = Table::copied_from_file(path, {.placement = Placement::libtorch}).tensor();
  const at::Tensor is_old = found.eq(numbers()).all(1), is_new = found.eq(new_numbers()).all(1);
  require(is_old.logical_or(is_new).logical_not().sum().item<std::int64_t>() <= torn);
}

void tuned(const std::string&) {
  const auto tuning = tune({.seconds = 0.02});
  if (tuning.stored.empty()) throw FileError(tuning.not_stored);
  require(plan_entries(read_plan(tuning.stored)) == plan_entries(tuning.plan));
}

int refused(const char* kind, const std::string& text, int status) {
  std::fprintf(stderr, "%s: %s\n", kind, text.c_str());
  return status;
}

using Kind = void (*)(const std::string& path);
const std::map<std::string, Kind> kinds = {
    {"save_npy", npy},
    {"save_torch", torchs},
    {"mapped", mapped},
    {"checkpoint", checkpoint},
    {"contiguous", contiguous},
    {"factory", factory},
    {"shared", shared},
    {"sharded", sharded},
    {"row_cache_through", [](const std::string& path) { row_cache(path, CacheWrites::through); }},
    {"row_cache_back", [](const std::string& path) { row_cache(path, CacheWrites::back); }},
    {"cached_through", [](const std::string& path) { cached(path, 1); }},
    {"cached_back", [](const std::string& path) { cached(path, 0); }},
    {"tune", tuned},
};

int run(const std::string& kind, const std::string& path) {
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
