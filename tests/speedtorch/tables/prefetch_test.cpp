#include "speedtorch/tables/prefetch.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "speedtorch/error.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/host_placements.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A stream that does nothing until its work is waited for, so that a missing wait shows. Also logs its
/// calls.
class LazyStream final : public SideStream {
 public:
  struct Log {
    std::vector<std::string> lines;
    std::mutex mutex;
  };
  explicit LazyStream(std::shared_ptr<Log> log) : log_(std::move(log)) {}

  void record_caller(std::size_t slot) override { say("record_caller", slot); }
  void wait_for_caller(std::size_t slot) override { say("wait_for_caller", slot); }
  void run(const std::function<void()>& work) override {
    say("run", 99);
    const std::lock_guard lock(mutex_);
    queue_.push_back(work);
  }
  void record(std::size_t slot) override {
    say("record", slot);
    const std::lock_guard lock(mutex_);
    marks_[slot] = queued_before_ + queue_.size();
  }
  void make_caller_wait(std::size_t slot) override {
    say("make_caller_wait", slot);
    finish(slot);
  }
  void make_host_wait(std::size_t slot) override {
    say("make_host_wait", slot);
    finish(slot);
  }

 private:
  void say(const std::string& what, std::size_t slot) {
    const std::lock_guard lock(log_->mutex);
    log_->lines.push_back(slot == 99 ? what : what + " " + std::to_string(slot));
  }
  /// Runs all recorded work, in order.
  void finish(std::size_t slot) {
    const std::lock_guard lock(mutex_);
    for (; queued_before_ < marks_[slot]; ++queued_before_) {
      queue_.front()();
      queue_.erase(queue_.begin());
    }
  }

  std::shared_ptr<Log> log_;
  std::mutex mutex_;
  std::vector<std::function<void()>> queue_;
  std::size_t queued_before_ = 0;
  std::map<std::size_t, std::size_t> marks_;
};

/// Blocks the worker at the start of a gather until it is released.
class HeldStream final : public SideStream {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false, open = false;

    void set(bool& what) {
      {
        const std::lock_guard lock(mutex);
        what = true;
      }
      changed.notify_all();
    }
    void wait_for(const bool& what) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return what; });
    }
  };
  explicit HeldStream(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}

  void record_caller(std::size_t /*slot*/) override {}
  void wait_for_caller(std::size_t /*slot*/) override {}
  void run(const std::function<void()>& work) override { work(); }
  void record(std::size_t /*slot*/) override {}
  void make_caller_wait(std::size_t /*slot*/) override {}
  void make_host_wait(std::size_t /*slot*/) override {
    gate_->set(gate_->reached);
    gate_->wait_for(gate_->open);
  }

 private:
  std::shared_ptr<Gate> gate_;
};

at::Tensor new_tensor(at::IntArrayRef sizes, at::ScalarType dtype) { return at::empty(sizes, dtype); }

/// As for a model on a GPU, but with all memory on the host.
PrefetchSetup lazy_setup(Route route, const std::shared_ptr<LazyStream::Log>& log) {
  return {route, std::make_unique<LazyStream>(log), new_tensor, new_tensor, at::kCPU};
}

Table random_table(Placement placement = Placement::pageable) {
  return Table::from_array(at::randn({500, 3, 4}), {.placement = placement});
}

std::vector<at::Tensor> random_batches(int count) {
  std::vector<at::Tensor> batches;
  for (int k = 0; k < count; ++k)
    batches.push_back(at::randint(0, 500, {2, 20 + k % 5}, k % 2 == 0 ? at::kLong : at::kInt));
  return batches;
}

/// Runs the batches through, two in flight, and compares each with LibTorch's own index.
void expect_batches(Prefetcher& prefetcher, const Table& table, const std::vector<at::Tensor>& batches) {
  prefetcher.submit(batches[0]);
  for (std::size_t k = 0; k < batches.size(); ++k) {
    if (k + 1 < batches.size()) prefetcher.submit(batches[k + 1]);
    const auto rows = prefetcher.take();
    EXPECT_TRUE(at::equal(rows, table.host_tensor().index({batches[k].to(at::kLong)}))) << k;
  }
  EXPECT_EQ(prefetcher.in_flight(), 0U);
}

TEST(Prefetch, GivesTheBatchesInOrderFromEveryHostPlacement) {
  for (const auto placement : host_placements) {
    const auto table = random_table(placement);
    Prefetcher prefetcher(table);
    expect_batches(prefetcher, table, random_batches(20));
  }
}

TEST(Prefetch, ReadsAFileByItsReader) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "rows.npy").string();
  const auto table =
      Table::from_array(at::randn({500, 3, 4}), {.placement = Placement::mapped, .file = path});
  Prefetcher prefetcher(table);
  expect_batches(prefetcher, table, random_batches(20));
  std::filesystem::resize_file(path,
                               4096 + 100 * 48);  // only the batched reader detects that, while it reads
  prefetcher.submit(at::tensor({400}, at::kLong));
  EXPECT_THROW(prefetcher.take(), FileError);
}

/// No work of a batch runs before it is waited for. So a staging buffer that is used too early, or a result
/// that is taken without waiting, has wrong rows.
TEST(Prefetch, WaitsForTheSideStreamWhereItMust) {
  for (const auto route : {Route::staged, Route::in_place}) {
    for (const std::size_t depth : {1U, 2U, 3U}) {
      const auto table = random_table();
      const auto log = std::make_shared<LazyStream::Log>();
      Prefetcher prefetcher(table, lazy_setup(route, log), depth);
      const auto batches = random_batches(15);
      std::size_t submitted = 0;
      for (std::size_t k = 0; k < batches.size(); ++k) {
        while (submitted < batches.size() && prefetcher.in_flight() < depth)
          prefetcher.submit(batches[submitted++]);
        EXPECT_TRUE(at::equal(prefetcher.take(), table.tensor().index({batches[k].to(at::kLong)}))) << k;
      }
    }
  }
}

/// The model is on meta, a device that needs no hardware: results must be there, not where the table is.
TEST(Prefetch, GivesRowsOnTheModelsDevice) {
  const auto table = random_table();
  EXPECT_EQ(prefetch_setup(table, at::kCPU, 2).results({2}, at::kFloat).device(), at::kCPU);
  auto setup = lazy_setup(Route::staged, std::make_shared<LazyStream::Log>());
  setup.results = [](at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::empty(sizes, at::TensorOptions().dtype(dtype).device(at::kMeta));
  };
  Prefetcher prefetcher(table, std::move(setup), 1);
  prefetcher.submit(at::tensor({1, 2, 3, 4}, at::kLong).view({2, 2}));
  const auto rows = prefetcher.take();
  EXPECT_EQ(rows.device(), at::kMeta);
  EXPECT_EQ(rows.sizes(), (at::IntArrayRef{2, 2, 3, 4}));
}

TEST(Prefetch, QueuesEachBatchBetweenTheCallersRecordAndItsOwn) {
  const auto log = std::make_shared<LazyStream::Log>();
  {
    Prefetcher prefetcher(random_table(), lazy_setup(Route::staged, log), 1);
    for (int k = 0; k < 3; ++k) {
      prefetcher.submit(at::tensor({k}, at::kLong));
      (void)prefetcher.take();
    }
  }
  const std::vector<std::string> expected{
      "record_caller 0",  "make_host_wait 0", "wait_for_caller 0", "run", "record 0", "make_caller_wait 0",
      "record_caller 1",  "make_host_wait 1", "wait_for_caller 1", "run", "record 1", "make_caller_wait 1",
      "record_caller 0",  "make_host_wait 0", "wait_for_caller 0", "run", "record 0", "make_caller_wait 0",
      "make_host_wait 0", "make_host_wait 1"};  // the last two, before the buffers are freed
  EXPECT_EQ(log->lines, expected);
}

TEST(Prefetch, ABatchStaysUntilTheNextIsTaken) {
  const auto table = random_table();
  Prefetcher prefetcher(table);
  const auto batches = random_batches(6);
  prefetcher.submit(batches[0]);
  const auto first = prefetcher.take();
  const auto kept = first.clone();
  prefetcher.submit(batches[1]);
  prefetcher.submit(batches[2]);  // gathered into memory of neither the first nor the second
  EXPECT_TRUE(at::equal(first, kept));
  const void* const second = prefetcher.take().data_ptr();
  const void* const third = prefetcher.take().data_ptr();
  EXPECT_THAT((std::set<const void*>{first.data_ptr(), second, third}), testing::SizeIs(3));
}

TEST(Prefetch, ACopyOfTheIndexIsRead) {
  const auto table = random_table();
  Prefetcher prefetcher(table);
  auto index = at::tensor({5, 6}, at::kLong);
  prefetcher.submit(index);
  index.fill_(499);
  EXPECT_TRUE(at::equal(prefetcher.take(), table.tensor().slice(0, 5, 7)));
}

TEST(Prefetch, RowsThatAreWrittenMeanwhileAreNew) {
  for (const auto route : {Route::host, Route::staged, Route::in_place}) {
    const auto table = random_table();
    const auto log = std::make_shared<LazyStream::Log>();
    Prefetcher prefetcher(
        table, route == Route::host ? prefetch_setup(table, at::kCPU, 2) : lazy_setup(route, log), 2);
    for (int k = 0; k < 30; ++k) {
      prefetcher.submit(at::tensor({1, 2, 3}, at::kLong));
      prefetcher.submit(at::tensor({7, 8}, at::kLong));
      if (k % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // gathered, or not yet
      prefetcher.scatter(at::tensor({2, 2}, at::kInt), at::full({2, 3, 4}, k, at::kFloat), Duplicates::last);
      const auto rows = prefetcher.take();
      EXPECT_TRUE((rows[1] == k).all().item<bool>()) << to_string(route) << ' ' << k;
      EXPECT_TRUE(at::equal(rows, table.tensor().slice(0, 1, 4)));
      EXPECT_TRUE(at::equal(prefetcher.take(), table.tensor().slice(0, 7, 9)));
    }
  }
}

/// Without the lock between them, a batch would now and then have a row half old and half new, which no test
/// would see. Here the gather takes as long as the test wants.
TEST(Prefetch, AScatterWaitsForTheGatherThatIsUnderWay) {
  const auto table = random_table();
  const auto before = table.tensor().clone();
  const auto index = at::tensor({1, 2}, at::kLong);
  const auto gate = std::make_shared<HeldStream::Gate>();
  Prefetcher prefetcher(
      table, {Route::staged, std::make_unique<HeldStream>(gate), new_tensor, new_tensor, at::kCPU}, 2);
  prefetcher.submit(index);
  gate->wait_for(gate->reached);
  auto written = std::async(std::launch::async, [&] {
    prefetcher.scatter(index, at::full({2, 3, 4}, 7, at::kFloat), Duplicates::reject);
  });
  EXPECT_EQ(written.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_TRUE(at::equal(table.tensor(), before));
  gate->set(gate->open);
  written.get();
  EXPECT_TRUE((table.tensor().slice(0, 1, 3) == 7).all().item<bool>());
  EXPECT_TRUE((prefetcher.take() == 7).all().item<bool>());
}

TEST(Prefetch, ErrorsAreRethrownAndTheNextBatchComes) {
  const auto table = random_table();
  Prefetcher prefetcher(table);
  EXPECT_EQ(prefetcher.depth(), 2U);
  EXPECT_THAT([&] { prefetcher.take(); }, ThrowsMessage<OrderError>(HasSubstr("submit() one first")));
  prefetcher.submit(at::tensor({1, 500}, at::kLong));
  prefetcher.submit(RowRange{2, 4});
  EXPECT_THAT([&] { prefetcher.submit(RowRange{0, 1}); }, ThrowsMessage<OrderError>(HasSubstr("2 batches")));
  EXPECT_THAT([&] { prefetcher.take(); }, ThrowsMessage<IndexError>(HasSubstr("index 500 at position 1")));
  EXPECT_TRUE(at::equal(prefetcher.take(), table.tensor().slice(0, 2, 4)));
  EXPECT_THROW(prefetcher.submit(at::ones({2})), ShapeError);
  EXPECT_THROW(prefetcher.submit(RowRange{0, 501}), IndexError);
  EXPECT_EQ(prefetcher.in_flight(), 0U);
  EXPECT_THROW(Prefetcher(table, at::kCPU, 0), ShapeError);
}

TEST(Prefetch, MayEndWithBatchesInFlight) {
  const auto table = random_table();
  for (int k = 0; k < 50; ++k) {
    Prefetcher prefetcher(table);
    prefetcher.submit(RowRange{0, 500});
    prefetcher.submit(RowRange{0, 500});
  }
}

TEST(Prefetch, EightMayReadOneTable) {
  const auto table = random_table();
  const auto batches = random_batches(10);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      Prefetcher prefetcher(table);
      expect_batches(prefetcher, table, batches);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace speedtorch
