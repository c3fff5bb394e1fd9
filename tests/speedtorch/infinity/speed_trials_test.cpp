/// The choice of the fastest micro-batch size. Times are computed, so nothing depends on the machine's speed.
#include "speedtorch/infinity/speed_trials.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "speedtorch/infinity/micro_batch_size.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/infinity/models.h"

namespace speedtorch::test {
namespace {

using infinity::MicroBatchSize;
using infinity::SpeedTrials;
using Cost = std::function<double(std::int64_t samples)>;

/// Seconds of a micro-batch: a fixed cost, and one per sample.
double straight(std::int64_t samples) { return 100 + static_cast<double>(samples); }

/// The same, but each sample takes twice as long in micro-batches of more than 300.
double dear_above_300(std::int64_t samples) {
  return 20 + static_cast<double>(samples) * (samples > 300 ? 2 : 1);
}

double per_sample(const Cost& cost, std::int64_t samples) {
  return cost(samples) / static_cast<double>(samples);
}

/// Runs batches until the size is chosen. `runs` receives the sizes in order.
std::int64_t chosen(SpeedTrials& trials, const Cost& cost, std::int64_t batch,
                    std::vector<std::int64_t>* runs = nullptr) {
  for (int batches = 0; batches < 200; ++batches)
    for (std::int64_t left = batch; left > 0;) {
      if (const std::int64_t fastest = trials.fastest(); fastest > 0) return fastest;
      const std::int64_t samples = trials.next(left);
      EXPECT_GE(samples, 1);
      EXPECT_LE(samples, left);
      trials.timed(samples, cost(samples));
      if (runs) runs->push_back(samples);
      left -= samples;
    }
  ADD_FAILURE() << "no size was chosen";
  return 0;
}

TEST(SpeedTrials, FastestOfTheHalvedSizesIsChosen) {
  for (const std::int64_t largest : {9, 100, 1000, 1023, 4096})
    for (const Cost& cost : {Cost(straight), Cost(dear_above_300)}) {
      std::int64_t wanted = largest;
      for (std::int64_t size = largest; size >= 8; size = (size + 1) / 2)
        if (per_sample(cost, size) < per_sample(cost, wanted)) wanted = size;
      SpeedTrials trials(largest, 8);
      EXPECT_EQ(chosen(trials, cost, 2 * largest), wanted) << largest;
    }
}

TEST(SpeedTrials, LongerRunsDoNotMisleadIt) {
  int run = 0;
  const Cost disturbed = [&](std::int64_t samples) {
    return dear_above_300(samples) * (++run % 3 == 0 ? 10 : 1);
  };
  SpeedTrials trials(1024, 8);
  EXPECT_EQ(chosen(trials, disturbed, 1024), 256);
}

TEST(SpeedTrials, FewShorterRunsDoNotMisleadIt) {
  for (const std::int64_t lucky : {64, 128, 256}) {
    int run = 0;
    const Cost disturbed = [&](std::int64_t samples) {
      return straight(8 * samples) * (samples == lucky && run++ < 3 ? 0.85 : 1);
    };
    SpeedTrials trials(512, 64);
    EXPECT_EQ(chosen(trials, disturbed, 512), 512) << lucky;
  }
}

TEST(SpeedTrials, SlowSizesRunThreeTimesAndSmallerOnesNever) {
  std::vector<std::int64_t> runs;
  SpeedTrials trials(1024, 8);
  EXPECT_EQ(chosen(trials, straight, 4096, &runs), 1024);
  EXPECT_EQ(std::count(runs.begin(), runs.end(), 1024), 5);
  EXPECT_EQ(std::count(runs.begin(), runs.end(), 512), 5);
  EXPECT_EQ(std::count(runs.begin(), runs.end(), 256), 4);  // once as a remainder
  EXPECT_EQ(std::count(runs.begin(), runs.end(), 128), 0);
}

TEST(SpeedTrials, LargerSizeIsTakenIfItIsAsFast) {
  SpeedTrials trials(1000, 8);
  EXPECT_EQ(chosen(
                trials, [](std::int64_t samples) { return static_cast<double>(samples); }, 1000),
            1000);
}

TEST(SpeedTrials, SingleSizeNeedsNoRun) {
  EXPECT_EQ(SpeedTrials(7, 8).fastest(), 7);
  EXPECT_EQ(SpeedTrials(15, 9).fastest(), 15);
  EXPECT_EQ(SpeedTrials(1, 2).fastest(), 1);
  EXPECT_EQ(SpeedTrials(16, 8).fastest(), 0);
}

TEST(SpeedTrials, ItEndsIfNoBatchReachesTheLargestSize) {
  SpeedTrials trials(1000, 8);
  EXPECT_EQ(chosen(trials, straight, 600), 500);
}

/// What memory permits, and the batches to come.
struct Machine {
  MicroBatchSize sizes;
  Cost cost;
  std::int64_t fits = 0;
  std::vector<std::int64_t> runs = {};

  void batch(std::int64_t samples) {
    for (std::int64_t left = samples; left > 0;) {
      const std::int64_t count = sizes.next("k", samples, left);
      if (count > fits) {
        EXPECT_NE(sizes.ran_out("k", count), MicroBatchSize::Answer::give_up);
        continue;
      }
      sizes.timed("k", count, cost(count));
      sizes.worked("k", count);
      runs.push_back(count);
      left -= count;
    }
  }
  /// The sizes of the last of many batches.
  std::vector<std::int64_t> settled(std::int64_t samples) {
    for (int batches = 0; batches < 100; ++batches) runs.clear(), batch(samples);
    return runs;
  }
};

TEST(MicroBatchSpeed, FastestOfTheSizesThatFitIsChosen) {
  Machine machine{MicroBatchSize({.first = 8, .grow_again_after = 0}), dear_above_300, 5000};
  EXPECT_THAT(machine.settled(2048), testing::Each(256));
  machine.fits = 200;  // another program took the memory
  EXPECT_THAT(machine.settled(2048), testing::Each(testing::AllOf(testing::Ge(100), testing::Le(200))));
}

TEST(MicroBatchSpeed, SizeGrowsWithTheBatchIfTheLargestWasTheFastest) {
  Machine machine{MicroBatchSize({.first = 8}), straight, 1100};
  EXPECT_THAT(machine.settled(64), testing::ElementsAre(64));
  EXPECT_THAT(machine.settled(70), testing::ElementsAre(35, 35));  // too near to be tried
  EXPECT_THAT(machine.settled(500), testing::ElementsAre(500));
  EXPECT_THAT(machine.settled(2000), testing::ElementsAre(1000, 1000));
  EXPECT_THAT(machine.settled(33), testing::ElementsAre(33));
}

TEST(MicroBatchSpeed, LargestThatFitsIsTakenOnRequestAndForDeterministicAlgorithms) {
  Machine by_memory{MicroBatchSize({.first = 8, .by_speed = false}), dear_above_300, 5000};
  EXPECT_THAT(by_memory.settled(2048), testing::ElementsAre(2048));
  const bool before = at::globalContext().deterministicAlgorithms();
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  Machine deterministic{MicroBatchSize({.first = 8}), dear_above_300, 5000};
  EXPECT_THAT(deterministic.settled(2048), testing::ElementsAre(2048));
  at::globalContext().setDeterministicAlgorithms(before, /*warn_only=*/false);
}

TEST(MicroBatchSpeed, EachHalfIsTriedThatIsFasterButNoneBelowTheFirst) {
  const Cost smaller_is_faster = [](std::int64_t samples) { return static_cast<double>(samples * samples); };
  for (const auto& [first, wanted] : {std::pair<std::int64_t, std::int64_t>{200, 256}, {8, 8}}) {
    Machine machine{MicroBatchSize({.first = first}), smaller_is_faster, 5000};
    EXPECT_THAT(machine.settled(2048), testing::Each(wanted));
  }
}

/// A training whose clock a model moves: by `dear_above_300` per forward pass with gradients.
struct TimedTraining {
  explicit TimedTraining(Reduction reduction, double dropout = 0) : net(mlp(at::kDouble, dropout)) {
    InfinityBatchOptions options = quiet();
    options.micro_batch.clock = [this] { return time; };
    ib = std::make_unique<InfinityBatch>(options);
    ib->set_model(Model(net->parameters(), [this](const at::Tensor& inputs) {
      if (at::GradMode::is_enabled()) {
        counts.push_back(inputs.size(0));
        time += dear_above_300(inputs.size(0));
      }
      return net->forward(inputs);
    }));
    ib->set_criterion(Criterion(torch::nn::CrossEntropyLoss(), reduction));
  }
  /// @returns the sizes of the batch's micro-batches
  std::vector<std::int64_t> backward(const Examples& data) {
    counts.clear();
    ib->backward({data.inputs, data.classes});
    return counts;
  }
  torch::nn::Sequential net;
  double time = 0;
  std::vector<std::int64_t> counts;
  std::unique_ptr<InfinityBatch> ib;
};

class SpeedOfTraining : public testing::TestWithParam<Reduction> {};
INSTANTIATE_TEST_SUITE_P(OfEachKind, SpeedOfTraining, testing::Values(Reduction::mean, Reduction::coupled));

/// Each batch of the comparison has the plain batch's gradients, and no sample runs for the comparison alone.
TEST_P(SpeedOfTraining, ComparisonIsMadeByTheBatchesThemselves) {
  TimedTraining training(GetParam());
  const Examples data = examples(1024);
  auto plain = mlp();
  torch::nn::CrossEntropyLoss()(plain->forward(data.inputs), data.classes).backward();
  std::vector<std::int64_t> counts;
  for (int batch = 0; batch < 16; ++batch) {
    for (const at::Tensor& parameter : training.net->parameters()) parameter.mutable_grad() = at::Tensor();
    counts = training.backward(data);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 1024);
    EXPECT_LT(distance(gradients_of(training.net), gradients_of(plain)), 1e-12);
  }
  EXPECT_THAT(counts, testing::Each(256));
}

/// With random draws the two passes of a coupled criterion must agree while sizes change.
TEST(MicroBatchSpeed, ComparedSizesRepeatTheDrawsOfTwoPasses) {
  TimedTraining training(Reduction::coupled, 0.5);
  const Examples data = examples(1024);
  std::vector<std::int64_t> counts;
  for (int batch = 0; batch < 24; ++batch) {
    counts = training.backward(data);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 1024);
  }
  EXPECT_THAT(counts, testing::Each(256));
}

TEST(MicroBatchSpeed, CheckpointKeepsTheChosenSize) {
  const stbench::test::TemporaryFolder folder;
  const std::string path = folder.path() / "training.pt";
  const auto trained = [](TimedTraining& training) {
    auto optimizer = std::make_shared<torch::optim::SGD>(training.net->parameters(), 0.1);
    training.ib->set_optimizer(std::static_pointer_cast<torch::optim::Optimizer>(optimizer));
    const Examples data = examples(1024);
    training.ib->set_data(Data(std::vector<Batch>{{data.inputs, data.classes}}));
  };
  TimedTraining training(Reduction::mean);
  trained(training);
  training.ib->train(16);
  training.ib->save(path);
  TimedTraining resumed(Reduction::mean);
  trained(resumed);
  resumed.ib->resume(path);
  resumed.ib->epoch();
  EXPECT_THAT(resumed.counts, testing::ElementsAre(256, 256, 256, 256));
}

}  // namespace
}  // namespace speedtorch::test
