// Trains more parameters than fit into a device's memory. The capped allocator stands for the device: it
// refuses the full table, while the hosted one trains and learns. Also a table in a file that exceeds a limit
// on the process's own memory.
//
// That limit, RLIMIT_DATA, counts private writable memory. It shows that a table and its states in files need
// none, so that neither swap nor overcommit bounds them. It does not show files larger than the machine's
// memory: their pages stay in the page cache here, and none is evicted and read again.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <torch/optim/adam.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "speedtorch/error.h"
#include "speedtorch/memory/capped_allocator.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tables/model_factory.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {
namespace {

/// Before any of LibTorch's tensors exists.
CappedAllocator& device = CappedAllocator::install();

constexpr std::int64_t megabyte = 1 << 20;
constexpr std::int64_t rows = 283'000, dim = 124;  // a fortieth of SpeedTorch's 2.83M × 496
constexpr std::int64_t table_bytes = rows * dim * 4;
/// So few rows are trained that each occurs often, and they are spread over the table.
constexpr std::int64_t trained = 4096, apart = 69;
static_assert((trained - 1) * apart < rows && rows < (trained + 6) * apart);

at::Tensor some_rows() { return at::randint(0, trained, {2048}, at::kLong).mul_(apart); }

/// Every row should become its number, scaled.
at::Tensor wanted(const at::Tensor& index) {
  return index.to(at::kFloat).div(static_cast<double>(rows)).unsqueeze(1);
}

/// The remaining share of the distance after that many calls of `step`, which returns the current mean square
/// of the distance.
template <class Step>
double left_after(int steps, Step step) {
  at::manual_seed(1);
  const double first = step();
  double last = first;
  for (int k = 1; k < steps; ++k) last = step();
  return last / first;
}

/// A step of SparseRows on the table, in place.
double fused_step(SparseRows& side) {
  const auto index = some_rows();
  auto batch = at::empty({index.numel(), dim});
  gather_rows(side.table(), index, batch);
  const auto away = batch - wanted(index);
  side.step(index, away);
  return away.square().mean().item<double>();
}

/// A step of a weight that holds the rows of the batch, by one of LibTorch's optimizers.
double swapped_step(ModelFactory& vectors, OptimizerFactory& states, torch::optim::Optimizer& optimizer) {
  const auto index = some_rows();
  vectors.before_forward_pass(index);
  states.before_forward_pass(vectors);
  const auto away = vectors.weight().index_select(0, vectors.positions().positives) - wanted(index);
  away.square().sum().backward();
  optimizer.step();
  states.after_optimizer_step();
  vectors.after_optimizer_step();
  return away.square().mean().item<double>();
}

/// Compares the rows between the first two trained ones, which nothing may change.
bool is_untouched(const at::Tensor& table) { return !table.narrow(0, 1, apart - 1).any().item<bool>(); }

class Capped : public testing::Test {
 public:
  Capped() { device.set_cap(device.allocated() + 64 * megabyte); }
  ~Capped() override { device.set_cap(0); }
};

TEST_F(Capped, TheFullTableIsRefused) {
  ASSERT_GT(table_bytes, 64 * megabyte);
  EXPECT_THROW(at::empty({rows, dim}), c10::OutOfMemoryError);
  EXPECT_THROW(SparseRows(at::empty({rows / 2, dim}), AdamOptions{}, {.placement = Placement::libtorch}),
               c10::OutOfMemoryError)
      << "half of the table fits, with its two states it does not";
}

TEST_F(Capped, TheHostedTableTrainsAndLearns) {
  const UpdateOptions optimizers[] = {AdamOptions{.lr = 0.1}, AdamaxOptions{.lr = 0.1},
                                      AdagradOptions{.lr = 0.1}};
  for (const auto placement : {Placement::hugepage, Placement::mapped}) {
    for (const auto& options : optimizers) {
      const auto table = Table::filled({rows, dim}, at::kFloat, Zeros{}, {.placement = placement});
      SparseRows side(table.host_tensor(), options, {.placement = placement});
      for (const auto& state : side.states()) ASSERT_EQ(state.table.nbytes(), table_bytes);
      EXPECT_LT(left_after(100, [&] { return fused_step(side); }), 0.1) << to_string(placement);
      EXPECT_TRUE(is_untouched(side.table()));
      EXPECT_LE(device.allocated(), device.cap());
    }
  }
}

TEST_F(Capped, SpeedTorchsRouteTrainsTheHostedTableAndLearns) {
  for (const auto placement : {Placement::hugepage, Placement::mapped}) {
    const TableOptions options{.placement = placement};
    const auto weight = at::zeros({1, dim}).requires_grad_();
    torch::optim::Adam optimizer({weight}, torch::optim::AdamOptions(0.1));
    ModelFactory vectors(weight, rows, options);
    OptimizerFactory states(optimizer, weight, rows, options);
    vectors.zeros_init();
    ASSERT_EQ(states.bytes(), 2 * table_bytes);
    EXPECT_LT(left_after(100, [&] { return swapped_step(vectors, states, optimizer); }), 0.1)
        << to_string(placement);
    EXPECT_TRUE(is_untouched(vectors.table().host_tensor()));
    EXPECT_LE(device.allocated(), device.cap());
  }
}

TEST_F(Capped, AllRowsOfTheHostedTableCanBeTrained) {
  const auto table = Table::filled({rows, dim}, at::kFloat, Zeros{});
  SparseRows side(table.host_tensor(), AdamOptions{.lr = 0.5});
  const auto index = at::randint(0, rows, {4096}, at::kLong);
  side.step(index, at::rand({4096, dim}).add_(1));
  EXPECT_TRUE(table.host_tensor().index_select(0, index).lt(0).all().item<bool>());
}

/// The process's own memory, which RLIMIT_DATA limits, in bytes.
std::int64_t own_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "VmData:" && status >> kilobytes) return kilobytes * 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmData");
}

/// Lowers the soft limit as long as it lives.
class OwnMemoryLimit {
 public:
  explicit OwnMemoryLimit(std::int64_t more) {
    ::getrlimit(RLIMIT_DATA, &before_);
    auto lower = before_;
    lower.rlim_cur = static_cast<rlim_t>(own_memory() + more);
    if (::setrlimit(RLIMIT_DATA, &lower) != 0) throw std::runtime_error("setrlimit failed");
  }
  ~OwnMemoryLimit() { ::setrlimit(RLIMIT_DATA, &before_); }
  OwnMemoryLimit(const OwnMemoryLimit&) = delete;
  OwnMemoryLimit& operator=(const OwnMemoryLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(BeyondALimit, ATableInAFileDoesNotCountAsTheProcessesMemory) {
  constexpr std::int64_t limit = 128 * megabyte, large_rows = 2 * limit / (dim * 4);
  const OwnMemoryLimit lowered(limit);
  EXPECT_THROW(Table::filled({large_rows, dim}, at::kFloat, Zeros{}, {.placement = Placement::hugepage}),
               MemoryError);

  const TableOptions file{.placement = Placement::mapped};
  const auto table = Table::filled({large_rows, dim}, at::kFloat, Zeros{}, file);
  SparseRows side(table.host_tensor(), AdamaxOptions{.lr = 0.05}, file);
  const auto index = at::randint(0, large_rows, {4096}, at::kLong);
  side.step(index, at::rand({4096, dim}).add_(1));
  EXPECT_TRUE(table.host_tensor().index_select(0, index).lt(0).all().item<bool>());
}

}  // namespace
}  // namespace speedtorch
