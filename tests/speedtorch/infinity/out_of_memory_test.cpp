/// Trains under a memory cap, and with any single allocation refused. A separate program, because the capped
/// allocator must be installed before the first tensor.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/library.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

#include "speedtorch/infinity/memory_monitor.h"
#include "speedtorch/infinity/out_of_memory.h"
#include "speedtorch/memory/capped_allocator.h"
#include "tests/address_sanitizer.h"
#include "tests/speedtorch/infinity/models.h"

namespace speedtorch::test {
namespace {

/// The key that InfinityBatch notices normalisations by has a fallback already, as with LibTorch's extensions
/// for other devices.
const auto fallback_of_another_library = [] {
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "_",
                                                  c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  library->fallback(torch::CppFunction::makeFallthrough());
  return library;
}();

using infinity::MicroBatchSize;
using testing::HasSubstr;
using Answer = MicroBatchSize::Answer;

CappedAllocator& memory() { return *CappedAllocator::installed(); }

/// The peak beyond the bytes held at construction.
class Cap {
 public:
  explicit Cap(std::int64_t bytes) { memory().set_cap(memory().allocated() + bytes); }
  ~Cap() { memory().set_cap(0); }
  Cap(const Cap&) = delete;
  Cap& operator=(const Cap&) = delete;
};

TEST(CappedAllocator, AllocatorCountsBytesAndEnforcesTheCap) {
  const std::int64_t before = memory().allocated();
  memory().reset_peak();
  {
    const at::Tensor some = at::empty({1000}, at::kByte);
    EXPECT_EQ(memory().allocated(), before + 1000);
    const Cap cap(500);
    EXPECT_NO_THROW(at::empty({500}, at::kByte));
    EXPECT_THROW(at::empty({501}, at::kByte), c10::OutOfMemoryError);
  }
  EXPECT_EQ(memory().allocated(), before);
  EXPECT_EQ(memory().peak(), before + 1500);
  memory().refuse(2);
  EXPECT_NO_THROW(at::empty({1}));
  EXPECT_THROW(at::empty({1}), c10::OutOfMemoryError);
  EXPECT_NO_THROW(at::empty({1}));
}

/// oneDNN uses raw allocation, which aborts if the context is not the address.
TEST(CappedAllocator, ServesConvolutionsAndOtherThreads) {
  const std::int64_t before = memory().allocated();
  {
    torch::manual_seed(1);
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 8, 3));
    conv->forward(at::randn({4, 3, 16, 16})).sum().backward();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([] {
        for (int round = 0; round < 500; ++round) at::empty({round + 1});
      });
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(memory().allocated(), before);
}

TEST(OutOfMemoryErrors, OutOfMemoryErrorsAreRecognised) {
  const auto is = [](const auto& error) { return infinity::is_out_of_memory(error); };
  EXPECT_TRUE(is(std::bad_alloc()));
  EXPECT_TRUE(is(MemoryError("x")));
  EXPECT_TRUE(is(c10::Error("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")));
  EXPECT_TRUE(is(c10::Error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling")));
  constexpr std::int32_t memory_allocation = 2, illegal_address = 700;  // of cudaError
  EXPECT_TRUE(is(c10::AcceleratorError({}, memory_allocation, "CUDA error")));
  EXPECT_FALSE(is(c10::AcceleratorError({}, illegal_address, "CUDA error")));
  EXPECT_TRUE(is(CudaError("cudaMalloc", "cudaErrorMemoryAllocation", "out of memory")));
  EXPECT_FALSE(is(CudaError("cudaMemcpy", "cudaErrorInvalidValue", "invalid argument")));
  EXPECT_FALSE(is(c10::Error("mat1 and mat2 shapes cannot be multiplied")));
  EXPECT_FALSE(is(std::runtime_error("out of memory")));
}

TEST(MicroBatchSizes, SizeSettlesWithinAQuarterOfWhatFits) {
  for (const std::int64_t fits : {1, 3, 8, 20, 100, 1000}) {
    MicroBatchSize sizes({.first = 8});
    std::int64_t tries = 0;
    for (int round = 0; round < 60; ++round, ++tries) {
      const std::int64_t samples = sizes.of("a");
      if (samples <= fits)
        sizes.worked("a", samples);
      else
        EXPECT_NE(sizes.ran_out("a", samples), Answer::give_up);
    }
    EXPECT_LE(sizes.of("a"), fits);
    EXPECT_GE(sizes.of("a") * 4, fits * 3) << fits;
    EXPECT_TRUE(sizes.settled("a")) << fits;
    EXPECT_FALSE(sizes.settled("b"));
    EXPECT_EQ(sizes.of("b"), 8);  // each shape has its own
  }
}

TEST(MicroBatchSizes, SizeThatHadWorkedIsRetriedOnce) {
  MicroBatchSize sizes({.first = 8, .largest = 8});
  sizes.worked("a", 8);
  EXPECT_EQ(sizes.ran_out("a", 8), Answer::again);
  EXPECT_EQ(sizes.ran_out("a", 8), Answer::smaller);
  EXPECT_EQ(sizes.of("a"), 4);
  MicroBatchSize fixed({.fixed = 5});
  EXPECT_EQ(fixed.ran_out("a", 5), Answer::again);
  EXPECT_EQ(fixed.ran_out("a", 5), Answer::give_up);
  MicroBatchSize one({.first = 1});
  EXPECT_EQ(one.ran_out("a", 1), Answer::give_up);
}

TEST(MicroBatchSizes, SizeThatHadWorkedIsTriedAgainLater) {
  MicroBatchSize sizes({.first = 8, .largest = 8, .retry_same_size = false, .grow_again_after = 10});
  sizes.worked("a", 8);
  EXPECT_EQ(sizes.ran_out("a", 8), Answer::smaller);
  for (int batch = 0; batch < 10; ++batch) sizes.worked("a", sizes.of("a"));
  EXPECT_LT(sizes.of("a"), 8);
  for (int batch = 0; batch < 3; ++batch) sizes.worked("a", sizes.of("a"));
  EXPECT_EQ(sizes.of("a"), 8);
}

TEST(MicroBatchSizes, SizeIsNotSettledWhileItMayGrow) {
  MicroBatchSize sizes({.first = 8, .grow_again_after = 3});
  sizes.worked("a", 8);
  EXPECT_FALSE(sizes.settled("a"));  // 16 are to be tried
  EXPECT_EQ(sizes.ran_out("a", 16), Answer::smaller);
  EXPECT_FALSE(sizes.settled("a"));  // then 12
  sizes.worked("a", 8);
  EXPECT_FALSE(sizes.settled("a"));
  sizes.worked("a", 12);
  EXPECT_TRUE(sizes.settled("a"));
  EXPECT_EQ(sizes.ran_out("a", 12), Answer::again);
  EXPECT_EQ(sizes.ran_out("a", 12), Answer::smaller);
  sizes.worked("a", 6);
  sizes.worked("a", 9);
  sizes.worked("a", 9);
  EXPECT_TRUE(sizes.settled("a"));
  for (int more = 0; more < 4; ++more) sizes.worked("a", 9);
  EXPECT_FALSE(sizes.settled("a"));  // what had worked comes back
  MicroBatchSize fixed({.fixed = 5});
  fixed.worked("a", 5);
  EXPECT_FALSE(fixed.settled("a"));
  MicroBatchSize bounded({.first = 8, .largest = 16});
  bounded.worked("a", 8);
  EXPECT_FALSE(bounded.settled("a"));
  bounded.worked("a", 16);
  EXPECT_TRUE(bounded.settled("a"));
}

TEST(MicroBatchSizes, SizeRespectsTheBudget) {
  MicroBatchSize sizes({.first = 10});
  sizes.worked("a", 10, 1000, 500);  // 100 bytes a sample
  EXPECT_EQ(sizes.of("a"), 15);
  sizes.worked("a", 15, 1500, -300);
  EXPECT_EQ(sizes.of("a"), 12);
}

// ---- batches beyond the cap ----

constexpr std::int64_t kMiB = 1 << 20;

torch::nn::Sequential wide() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 256),
                               torch::nn::ReLU(), torch::nn::Linear(256, 10));
}

std::pair<at::Tensor, at::Tensor> wide_data(std::int64_t samples) {
  torch::manual_seed(2);
  return {at::randn({samples, 64}), at::randint(0, 10, {samples}, at::kLong)};
}

bool plain_fits(std::int64_t samples) {
  auto net = wide();
  torch::nn::CrossEntropyLoss criterion;
  const auto [inputs, classes] = wide_data(samples);
  const Cap cap(8 * kMiB);
  return infinity::had_memory_for([&] { criterion(net->forward(inputs), classes).backward(); });
}

std::int64_t largest_plain_batch() {
  std::int64_t fits = 16;
  while (plain_fits(2 * fits)) fits *= 2;
  return fits;
}

TEST(BeyondTheCap, OursTrainsWithAFlatPeakWhereThePlainBatchFails) {
  const std::int64_t fits = largest_plain_batch();
  ASSERT_FALSE(plain_fits(2 * fits));
  std::vector<double> peaks;
  for (const std::int64_t times : {2, 8, 32}) {
    auto net = wide();
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const auto [inputs, classes] = wide_data(times * fits);
    const Cap cap(8 * kMiB);
    InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                     Data(std::vector<Batch>{{inputs, classes}}), quiet());
    const std::int64_t before = memory().allocated();
    memory().reset_peak();
    const auto first = ib.epoch();
    const auto second = ib.epoch();
    EXPECT_LT(second.loss, first.loss);
    EXPECT_EQ(second.samples, times * fits);
    peaks.push_back(static_cast<double>(memory().peak() - before));
    RecordProperty("peak_bytes_" + std::to_string(times) + "x", static_cast<int>(peaks.back()));
  }
  EXPECT_LE(peaks.back(), 8 * kMiB);
  EXPECT_LE(peaks[2], 1.1 * peaks[1]);
  EXPECT_LE(peaks[1], 1.1 * peaks[0]);
}

/// Full micro-batches and a remainder would take longer.
TEST(BeyondTheCap, BatchIsCutIntoEqualParts) {
  struct Counts final : infinity::Listener {
    std::vector<std::int64_t> of_batch;
    void micro_batch(const infinity::Place& /*place*/,
                     const infinity::MicroBatchProgress& progress) override {
      of_batch.push_back(progress.count);
    }
  };
  for (const bool prefetch : {false, true}) {
    const std::int64_t samples = 33 * largest_plain_batch();
    auto net = wide();
    const auto [inputs, classes] = wide_data(samples);
    auto options = quiet();
    options.micro_batch.by_speed = false;
    options.prefetch = prefetch;
    InfinityBatch ib(options);
    ib.set_model(net);
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    const auto counts = std::make_shared<Counts>();
    ib.listen(counts);
    const Cap cap(8 * kMiB);
    ib.backward({inputs, classes});
    counts->of_batch.clear();
    const std::int64_t fetched_before = ib.prefetched();
    const auto result = ib.backward({inputs, classes});
    const auto [least, most] = std::minmax_element(counts->of_batch.begin(), counts->of_batch.end());
    EXPECT_EQ(std::accumulate(counts->of_batch.begin(), counts->of_batch.end(), std::int64_t{0}), samples);
    EXPECT_GT(result.micro_batches, 2);
    EXPECT_LE(*most - *least, 1);
    EXPECT_EQ(ib.prefetched() - fetched_before, prefetch ? result.micro_batches - 1 : 0);
  }
}

/// Negative control, as SpeedTorch does it: one sample at a time, with all graphs kept until a single
/// backward. Memory grows with each sample.
TEST(BeyondTheCap, OneSampleAtATimeWithGraphsKeptGrowsWithTheBatch) {
  const auto peak_of = [](std::int64_t samples) {
    auto net = wide();
    const auto [inputs, classes] = wide_data(samples);
    const std::int64_t before = memory().allocated();
    memory().reset_peak();
    Tensors outputs;
    for (std::int64_t i = 0; i < samples; ++i)
      outputs.push_back(net->forward(inputs[i].unsqueeze(0)).clone());
    torch::nn::CrossEntropyLoss()(at::cat(outputs), classes).backward();
    return memory().peak() - before;
  };
  const auto small = static_cast<double>(peak_of(128)), middle = static_cast<double>(peak_of(256)),
             large = static_cast<double>(peak_of(512));
  EXPECT_GT(middle - small, 128 * 1024) << "a kilobyte a sample, at least its layers' outputs";
  EXPECT_NEAR(large - middle, 2 * (middle - small), 0.05 * (large - middle));
  const auto ours = [](std::int64_t samples) {
    auto net = wide();
    const auto [inputs, classes] = wide_data(samples);
    InfinityBatch ib(quiet(16));
    ib.set_model(net);
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    const std::int64_t before = memory().allocated();
    memory().reset_peak();
    ib.backward({inputs, classes});
    return memory().peak() - before;
  };
  EXPECT_LE(ours(512), ours(128) + 4096);
}

class Budgets : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(OfPrefetching, Budgets, testing::Bool());

TEST_P(Budgets, BudgetIsNotExceeded) {
  auto net = wide();
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  const auto [inputs, classes] = wide_data(4096);
  auto options = quiet();
  options.memory_budget = 6 * kMiB;
  options.prefetch = GetParam();
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(std::vector<Batch>{{inputs, classes}}),
                   options);
  ib.epoch();
  const std::int64_t of_parameters = 340 * 1024;
  memory().reset_peak();
  const std::int64_t before = memory().allocated();
  const auto record = ib.epoch();
  EXPECT_LE(memory().peak() - before, options.memory_budget);
  EXPECT_GE(memory().peak() - before, options.memory_budget / 2 - 3 * of_parameters);  // and used
  EXPECT_GT(record.micro_batches, 1);
  EXPECT_EQ(record.refusals, 0);
}

/// A budget that one sample exceeds is an error.
TEST(BeyondTheCap, ImpossibleBudgetIsAnError) {
  for (const std::int64_t fixed : {0, 64}) {
    auto net = wide();
    const auto [inputs, classes] = wide_data(256);
    auto options = quiet(fixed);
    options.memory_budget = fixed == 0 ? 500'000 : 1'100'000;  // the parameters alone take 340,000 twice
    InfinityBatch ib(options);
    ib.set_model(net);
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    EXPECT_THAT(
        [&] {
          ib.backward({inputs, classes});
        },
        testing::ThrowsMessage<infinity::OutOfMemory>(
            testing::AllOf(HasSubstr(fixed == 0 ? "of 1 samples" : "of 64 samples"),
                           HasSubstr("options.memory_budget is"))));
    for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
  }
}

/// Three samples cannot be split, because none may be left alone. If they do not fit, no smaller micro-batch
/// exists.
TEST(BeyondTheCap, ThreeSamplesWithBatchNormalisationThatDoNotFitAreAnError) {
  torch::nn::Sequential net(torch::nn::Linear(1024, 1024), torch::nn::BatchNorm1d(1024));
  auto options = quiet();
  options.batch_norm = infinity::BatchNorm::per_micro_batch;
  InfinityBatch ib(options);
  ib.set_model(net);
  ib.set_criterion([](const at::Tensor& out) { return out.square().mean(); });
  const at::Tensor inputs = at::randn({3, 1024});
  const Cap cap(6 * 4096);
  EXPECT_THROW(ib.backward(Batch(Tensors{inputs})), infinity::OutOfMemory);
}

/// Adam's states are twice the parameters. In a table they use no device memory.
TEST(BeyondTheCap, StatesInATableUseNoDeviceMemory) {
  const auto held_by = [](std::optional<TableOptions> home) {
    auto net = wide();
    torch::optim::Adam optimizer(net->parameters(), 0.001);
    const auto [inputs, classes] = wide_data(64);
    auto options = quiet(16);
    options.states_home = home;
    InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                     Data(std::vector<Batch>{{inputs, classes}}), options);
    const std::int64_t before = memory().allocated();
    memory().reset_peak();
    ib(2);
    return std::pair(memory().allocated() - before, memory().peak() - before);
  };
  const auto own = held_by(std::nullopt);
  const auto hosted = held_by(TableOptions{.placement = Placement::mapped});
  const std::int64_t of_states = 2 * 4 * (64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(own.first - hosted.first, of_states);
  EXPECT_GE(own.second - hosted.second, of_states);
}

TEST(BeyondTheCap, OversizedSampleIsAnErrorThatLosesNothing) {
  auto net = wide();
  const auto [inputs, classes] = wide_data(64);
  InfinityBatch ib(quiet());
  ib.set_model(net);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  {
    const Cap cap(1000);
    EXPECT_THAT(
        [&] {
          ib.backward({inputs, classes});
        },
        testing::ThrowsMessage<infinity::OutOfMemory>(HasSubstr("of 1 samples")));
  }
  for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
  EXPECT_NO_THROW(ib.backward({inputs, classes}));  // the next try can be made
}

// ---- the storm ----

struct Storm {
  bool retry_same_size = true;
  double dropout = 0;
  bool coupled = false;
  enum class Steps { adam, sgd, plain_sgd, both, contiguous, hosted } steps = Steps::adam;
  bool exact_batch_norm = false;
  bool prefetch = false;
};

/// The optimizers of a storm (a run in which one allocation is refused).
struct Optimizers {
  std::unique_ptr<torch::optim::Optimizer> adam;
  std::unique_ptr<torch::optim::Optimizer> sgd;
  std::unique_ptr<ContiguousOptimizer> contiguous;
  std::vector<Optimizer> all;

  Optimizers(std::vector<at::Tensor> parameters, Storm::Steps steps) {
    std::vector<at::Tensor> of_sgd;
    if (steps == Storm::Steps::both) {
      of_sgd.assign(parameters.begin() + 2, parameters.end());
      parameters.resize(2);
    }
    if (steps == Storm::Steps::sgd || steps == Storm::Steps::plain_sgd) of_sgd.swap(parameters);
    if (steps == Storm::Steps::contiguous) {
      contiguous =
          std::make_unique<ContiguousOptimizer>(parameters, AdamOptions{.lr = 0.01, .amsgrad = true});
      all.emplace_back(*contiguous);
      return;
    }
    if (!parameters.empty()) {
      adam = std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01).amsgrad(true));
      all.emplace_back(*adam);
    }
    if (!of_sgd.empty()) {
      sgd = std::make_unique<torch::optim::SGD>(
          of_sgd, torch::optim::SGDOptions(0.1).momentum(steps == Storm::Steps::plain_sgd ? 0 : 0.9));
      all.emplace_back(*sgd);
    }
  }
};

/// A net 6 -> 8 -> 4 with normalisation.
torch::nn::Sequential small_normalised(double dropout) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Tanh(),
                            torch::nn::Dropout(dropout), torch::nn::Linear(8, 4));
  net->to(at::kDouble);
  return net;
}

struct Outcome {
  Tensors parameters;
  bool refused = false;
  std::int64_t steps = 0;
  double loss = 0;
  std::int64_t step_copy_bytes = 0;
  std::vector<std::string> shrunk;  ///< what was said of micro-batches that became smaller
  std::int64_t smallest_size = 8;   ///< of a micro-batch that is not a batch's last
};

at::Tensor coupling(const at::Tensor& outputs, const at::Tensor& classes) {
  return torch::nn::CrossEntropyLoss()(outputs, classes) + outputs.std(0).square().sum();
}

/// Trains two batches and one more. In the second, refuses the `kth` allocation of gradients, step and
/// zero_grad.
Outcome trained(const Storm& storm, std::int64_t kth) {
  auto net = storm.exact_batch_norm ? small_normalised(storm.dropout) : mlp(at::kDouble, storm.dropout);
  const Optimizers optimizers(net->parameters(), storm.steps);
  const Examples data = examples(20);
  auto options = quiet();
  options.micro_batch = {.first = 8, .largest = 8, .retry_same_size = storm.retry_same_size};
  options.prefetch = storm.prefetch;
  Outcome outcome;
  options.warnings.of[infinity::Warning::smaller] = infinity::WarningAction::always;
  options.warning_sink = [&](infinity::Warning, const std::string& text) { outcome.shrunk.push_back(text); };
  if (storm.exact_batch_norm) options.batch_norm = infinity::BatchNorm::exact;
  if (storm.steps == Storm::Steps::hosted)
    options.states_home = TableOptions{.placement = Placement::pageable};
  const Criterion criterion =
      storm.coupled ? Criterion(&coupling, Reduction::coupled) : Criterion(torch::nn::CrossEntropyLoss());
  InfinityBatch ib(net, optimizers.all, criterion, Data(std::vector<Batch>{{data.inputs, data.classes}}),
                   options);
  for (int batch = 0; batch < 4; ++batch) {
    if (batch == 2) memory().refuse(kth);
    outcome.loss = ib.epoch().loss;
    for (const auto& [key, entry] : ib.micro_batch_size().entries())
      outcome.smallest_size = std::min(outcome.smallest_size, entry.size);
    if (batch == 2) {
      outcome.refused = kth > 0 && !memory().refusal_pending();
      memory().refuse(0);
    }
  }
  outcome.parameters = parameters_of(net);
  for (const at::Tensor& buffer : net->buffers()) outcome.parameters.push_back(buffer.clone());
  outcome.steps = ib.place().step;
  outcome.step_copy_bytes = ib.step_copy_bytes();
  return outcome;
}

/// The distance between refused allocations: 1 in the release build; 3 under AddressSanitizer, where refusing
/// each takes up to 215 s.
const std::int64_t kNextRefusal = stbench::test::under_address_sanitizer() ? 3 : 1;

class Storms : public testing::TestWithParam<Storm> {};
// With batch normalisation by SGD: the bias before it has no gradient but rounding's, of which Adam makes a
// step.
INSTANTIATE_TEST_SUITE_P(
    , Storms,
    testing::Values(Storm{}, Storm{.steps = Storm::Steps::sgd}, Storm{.steps = Storm::Steps::plain_sgd},
                    Storm{.dropout = 0.3}, Storm{.coupled = true}, Storm{.dropout = 0.3, .coupled = true},
                    Storm{.steps = Storm::Steps::both}, Storm{.steps = Storm::Steps::contiguous},
                    Storm{.steps = Storm::Steps::hosted},
                    Storm{.steps = Storm::Steps::sgd, .exact_batch_norm = true},
                    Storm{.dropout = 0.3, .steps = Storm::Steps::sgd, .exact_batch_norm = true},
                    Storm{.prefetch = true}));

TEST_P(Storms, RetriesOfTheSameSizeAreBitwiseEqual) {
  const Outcome undisturbed = trained(GetParam(), 0);
  const bool in_place =
      GetParam().steps == Storm::Steps::contiguous || GetParam().steps == Storm::Steps::plain_sgd;
  EXPECT_EQ(undisturbed.step_copy_bytes == 0, in_place);
  std::int64_t kth = 1;
  for (;; kth += kNextRefusal) {
    const Outcome outcome = trained(GetParam(), kth);
    if (!outcome.refused) break;
    ASSERT_TRUE(bitwise_equal(outcome.parameters, undisturbed.parameters)) << "allocation " << kth;
    ASSERT_EQ(outcome.loss, undisturbed.loss) << "allocation " << kth;
    ASSERT_EQ(outcome.steps, 4);
  }
  EXPECT_GT(kth, 50);  // there was something to refuse
}

TEST_P(Storms, RetriesOfASmallerSizeStayWithinTheErrorBound) {
  Storm storm = GetParam();
  storm.retry_same_size = false;
  const Outcome undisturbed = trained(storm, 0);
  EXPECT_THAT(undisturbed.shrunk, testing::IsEmpty());
  // Smaller micro-batches draw other dropout masks, so only sizes and steps can be compared.
  const bool draws = storm.dropout > 0;
  int became_smaller = 0;
  for (std::int64_t kth = 1;; kth += draws ? 7 : kNextRefusal) {
    const Outcome outcome = trained(storm, kth);
    if (!outcome.refused) break;
    if (!draws) {
      ASSERT_LE(distance(outcome.parameters, undisturbed.parameters), 1e-12) << "allocation " << kth;
    }
    ASSERT_EQ(outcome.steps, 4);
    ASSERT_TRUE(std::isfinite(outcome.loss));
    ASSERT_EQ(outcome.shrunk.empty(), outcome.smallest_size == 8) << "allocation " << kth;
    if (outcome.shrunk.empty()) continue;  // the refused allocation was outside of a micro-batch
    ++became_smaller;
    ASSERT_THAT(outcome.shrunk.front(),
                testing::MatchesRegex("memory ran out with [1-8] samples; from now on [1-4]"));
  }
  EXPECT_GT(became_smaller, 3);
}

// ---- who else sees memory ----

TEST(MemoryMonitor, MonitorMeasuresBlocksPeakAndLifetimes) {
  infinity::MemoryMonitor monitor(3);
  const c10::Device cpu(c10::kCPU);
  monitor.report(16, 100, cpu);
  monitor.report(32, 50, cpu);
  monitor.report(16, -100, cpu);
  monitor.report(48, -7, cpu);  // allocated before the watch
  monitor.report(64, 25, cpu);
  const auto figures = monitor.figures(cpu);
  EXPECT_EQ(figures.bytes, 75);
  EXPECT_EQ(figures.peak_bytes, 150);
  EXPECT_EQ(figures.allocated, 3);
  EXPECT_EQ(figures.freed, 1);
  EXPECT_EQ(figures.freed_bytes, 100);
  const auto events = monitor.events();
  ASSERT_EQ(events.size(), 3U);  // the oldest is gone
  EXPECT_EQ(events[1].bytes, -100);
  EXPECT_THAT(infinity::describe(figures), HasSubstr("3 blocks, 1 of them temporary"));
  monitor.reset_peak();
  EXPECT_EQ(monitor.figures(cpu).peak_bytes, 75);
}

TEST(MemoryMonitor, MonitorAddsBlockLifetimes) {
  using Clock = std::chrono::steady_clock;
  infinity::MemoryMonitor monitor;
  const c10::Device cpu(c10::kCPU);
  const auto before = Clock::now();
  for (const std::uintptr_t block : {16U, 32U}) monitor.report(block, 100, cpu);
  const auto born = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto dying = Clock::now();
  for (const std::uintptr_t block : {16U, 32U}) monitor.report(block, -100, cpu);
  const auto after = Clock::now();
  const auto seconds = [](Clock::duration one) { return std::chrono::duration<double>(one).count(); };
  EXPECT_GE(monitor.figures(cpu).freed_seconds, 2 * seconds(dying - born));
  EXPECT_LE(monitor.figures(cpu).freed_seconds, 2 * seconds(after - before));
}

TEST(MemoryMonitor, AgreesWithTheAllocator) {
  auto net = wide();
  const auto [inputs, classes] = wide_data(100);
  infinity::MemoryMonitor monitor;
  const std::int64_t before = memory().allocated();
  memory().reset_peak();
  {
    const infinity::MemoryMonitor::Watch watch(monitor);
    torch::nn::CrossEntropyLoss()(net->forward(inputs), classes).backward();
  }
  const auto figures = monitor.figures(at::kCPU);
  EXPECT_EQ(figures.bytes, memory().allocated() - before);
  EXPECT_EQ(figures.peak_bytes, memory().peak() - before);
  const std::int64_t blocks = figures.allocated;
  at::empty({10});
  EXPECT_EQ(monitor.figures(at::kCPU).allocated, blocks);  // no longer watched
}

}  // namespace
}  // namespace speedtorch::test

int main(int argc, char** argv) {
  speedtorch::CappedAllocator::install();
  at::set_num_threads(1);  // each thread's first use may allocate: the storm counts
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
