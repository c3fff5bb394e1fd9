/// Host kernels in a child of a process whose threads had started.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "speedtorch/error.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/gather.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tables/fills.h"
#include "speedtorch/tables/prefetch.h"
#include "speedtorch/threads.h"
#include "tests/speedtorch/in_child.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch {
namespace {

using test::in_child;
using test::in_forked_child;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kRows = 20'000, kDim = 64;

/// The parent's threads prepare everything that a child works on.
class Forked : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(2);
    gather_rows(table_, index_, out_);
    expected_ = out_.clone();
    out_.zero_();
  }

  static bool same(const at::Tensor& a, const at::Tensor& b) {
    return std::equal(a.const_data_ptr<float>(), a.const_data_ptr<float>() + a.numel(),
                      b.const_data_ptr<float>());
  }

  at::Tensor table_ = at::randn({kRows, kDim}), index_ = at::randperm(kRows, at::kLong);
  at::Tensor out_ = at::zeros({kRows, kDim}), expected_;
};

TEST_F(Forked, ChildrenGatherOnTheirOwnThread) {
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(in_forked_child([&] {
                gather_rows(table_, index_, out_);
                return same(out_, expected_) && same(gather_rows(table_, index_), expected_) &&
                       thread_count() == 1;
              }),
              "right");
  }
  EXPECT_EQ(thread_count(), 2) << "of the parent";
}

TEST_F(Forked, ChildrenScatterFillAndStep) {
  auto target = at::zeros({kRows, kDim}), filled = at::zeros({kRows, kDim}), sums = at::zeros({kRows, kDim});
  auto of_parent = at::zeros({kRows, kDim}), trained = at::ones({kRows, kDim});
  fill(of_parent, Uniform{0, 1, 5});
  const auto grad = at::ones({kRows, kDim});
  SparseRows rows(trained, SGDOptions{.lr = 1}, {Placement::pageable});
  EXPECT_EQ(in_forked_child([&] {
              scatter_rows(target, index_, expected_);
              scatter_rows(sums, index_, expected_, Duplicates::accumulate);
              fill(filled, Uniform{0, 1, 5});
              rows.step(index_, grad);
              const auto* const first = trained.const_data_ptr<float>();
              return same(target, table_) && same(sums, table_) && same(filled, of_parent) &&
                     std::all_of(first, first + trained.numel(), [](float value) { return value == 0; });
            }),
            "right");
}

TEST_F(Forked, ChildrenMaySetTheirThreadsAndForkAgain) {
  EXPECT_EQ(in_forked_child([&] {
              set_threads(4, {});
              const auto grandchild = in_forked_child([&] {
                gather_rows(table_, index_, out_);
                return same(out_, expected_);
              });
              gather_rows(table_, index_, out_);
              return same(out_, expected_) && thread_count() == 1 && grandchild == "right";
            }),
            "right");
}

TEST_F(Forked, APrefetcherOfTheParentIsRefusedAndLetGo) {
  auto prefetcher = std::make_unique<Prefetcher>(Table::from_array(table_, {Placement::pageable}));
  prefetcher->submit(index_);
  EXPECT_EQ(in_forked_child([&] {
              try {
                prefetcher->take();
                return false;
              } catch (const OrderError& error) {
                prefetcher.reset();
                return std::string(error.what()).find("was forked from it") != std::string::npos;
              }
            }),
            "right");
  EXPECT_TRUE(at::equal(prefetcher->take(), expected_));
  // Its thread now waits for work, at most forks; the condition that it waits on cannot be destroyed either.
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(in_forked_child([&] {
                prefetcher.reset();
                return true;
              }),
              "right");
  }
}

TEST_F(Forked, ThreadsThatCannotBeStartedAreNamedWithTheLimit) {
  const auto table = Table::from_array(table_, {Placement::pageable});
  EXPECT_THAT(in_child([&] {
                if (!test::take_away_threads()) return std::string("the limit cannot be set");
                return refusal<ThreadError>([&] { const Prefetcher prefetcher(table); });
              }),
              AllOf(HasSubstr("the thread of a Prefetcher: Resource temporarily unavailable"),
                    HasSubstr("the limit on processes (RLIMIT_NPROC, ulimit -u) is 1")));
}

}  // namespace
}  // namespace speedtorch
