// Training with more parameters than a device's memory has, where the capped allocator stands for the device:
// the full table is refused, and the hosted one trains and learns. And a table larger than a limit on the
// process's own memory, in a file.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "speedtorch/capped_allocator.h"
#include "speedtorch/error.h"
#include "speedtorch/rows.h"
#include "speedtorch/sparse_rows.h"
#include "speedtorch/table.h"

namespace speedtorch {
namespace {

/// Before any tensor of LibTorch's exists.
CappedAllocator& device = CappedAllocator::install();

constexpr std::int64_t megabyte = 1 << 20;
constexpr std::int64_t rows = 283'000, dim = 124;  // a fortieth of the seed's 2.83M × 496
constexpr std::int64_t table_bytes = rows * dim * 4;

/// Every row is to become its number, scaled: what is left of the way after so many steps.
double error_after(SparseRows& side, int steps) {
  at::manual_seed(1);
  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const auto index = at::randint(0, side.table().size(0), {2048}, at::kLong);
    auto batch = at::empty({2048, side.table().size(1)});
    gather_rows(side.table(), index, batch);
    const auto wanted = index.to(at::kFloat).div(static_cast<double>(side.table().size(0))).unsqueeze(1);
    const auto away = batch - wanted;
    last = away.square().mean().item<double>();
    if (step == 0) first = last;
    side.step(index, away);
  }
  return last / first;
}

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
      // A few rows, so that they are met often; the table is as large as ever.
      const auto table = Table::filled({rows, dim}, at::kFloat, Zeros{}, {.placement = placement});
      SparseRows side(table.host_tensor().narrow(0, 0, 4096), options, {.placement = placement});
      EXPECT_LT(error_after(side, 100), 0.1) << to_string(placement);
      EXPECT_LE(device.allocated(), device.cap());
    }
  }
}

TEST_F(Capped, AllRowsOfTheHostedTableCanBeTrained) {
  const auto table = Table::filled({rows, dim}, at::kFloat, Zeros{});
  SparseRows side(table.host_tensor(), AdamOptions{.lr = 0.5});
  const auto index = at::randint(0, rows, {4096}, at::kLong);
  side.step(index, at::rand({4096, dim}).add_(1));
  EXPECT_TRUE(table.host_tensor().index_select(0, index).lt(0).all().item<bool>());
}

/// Bytes of the process's own memory, which RLIMIT_DATA limits.
std::int64_t own_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "VmData:" && status >> kilobytes) return kilobytes * 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmData");
}

/// The soft limit, lowered for as long as it lives.
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

TEST(BeyondALimit, ATableInAFileIsNoneOfTheProcessesOwnMemory) {
  constexpr std::int64_t limit = 128 * megabyte, large_rows = 2 * limit / (dim * 4);
  const OwnMemoryLimit lowered(limit);
  EXPECT_THROW(Table::filled({large_rows, dim}, at::kFloat, Zeros{}, {.placement = Placement::hugepage}),
               MemoryError);

  const Home file{.placement = Placement::mapped};
  const auto table = Table::filled({large_rows, dim}, at::kFloat, Zeros{}, file);
  SparseRows side(table.host_tensor(), AdamaxOptions{.lr = 0.05}, file);
  const auto index = at::randint(0, large_rows, {4096}, at::kLong);
  side.step(index, at::rand({4096, dim}).add_(1));
  EXPECT_TRUE(table.host_tensor().index_select(0, index).lt(0).all().item<bool>());
}

}  // namespace
}  // namespace speedtorch
