/// Host kernels in a child of a process whose threads had started.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "speedtorch/duplicates.h"
#include "speedtorch/error.h"
#include "speedtorch/fills.h"
#include "speedtorch/gather.h"
#include "speedtorch/prefetch.h"
#include "speedtorch/rows.h"
#include "speedtorch/sparse_rows.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kRows = 20'000, kDim = 64;

/// "right", "wrong", "threw", or how the child was ended: by a signal where it hangs.
std::string in_forked_child(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int answer = 2;
    try {
      answer = work() ? 0 : 1;
    } catch (...) {
    }
    ::_exit(answer);
  }
  int status = 0;
  for (int wait = 0; wait < 600; ++wait) {  // 60 s: a thousand times what it takes
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
      return WEXITSTATUS(status) == 0 ? "right" : WEXITSTATUS(status) == 1 ? "wrong" : "threw";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return "hung";
}

/// All that a child works on is made before, by the parent's threads.
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
}

}  // namespace
}  // namespace speedtorch
