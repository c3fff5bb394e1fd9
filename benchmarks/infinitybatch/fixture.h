/// What the contestants of a cell of the infinitybatch suite train: a net, on batches of so many samples,
/// under a cap in which a plain batch of the case's `rows` samples fits.
///
/// A step is the gradients of the whole batch, by whichever way, and SGD's update by them. It begins from the
/// same parameters each time, so that the gradients are known: in float64, by LibTorch's own autograd on
/// parts of the batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/infinitybatch/memory_cap.h"
#include "benchmarks/steps/net.h"
#include "benchmarks/steps/step_suite.h"

namespace torch::optim {
class Optimizer;
}

namespace stbench {

/// Of the batches of a fixture.
struct Examples {
  at::Tensor samples, classes;
};

/// The gradients of a batch in float64, and how far those of the plain batch in float32 are from them.
struct ExactGradients {
  std::vector<at::Tensor> of;  ///< each parameter
  double plain_difference = 0;
};

struct TrainingFixture final : StepFixture {
  TrainingFixture(const reports::Identity& id, const StepTerms& terms);
  [[nodiscard]] reports::Columns columns() const override;

  /// `count` samples of a set's batch from the `first` on, where they lie: on the host.
  [[nodiscard]] Examples examples(int set, std::int64_t first, std::int64_t count) const;
  [[nodiscard]] at::Tensor loss(const std::vector<at::Tensor>& parameters, const Examples& of) const;
  /// Leafs of their own, as at first.
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  /// Made when it is first asked for: untimed, and without a cap.
  const ExactGradients& exact(int set);

  static constexpr double rate = 0.01;
  static constexpr int batches = 2;  ///< that the sets rotate over

  reports::Identity id;
  const Net& net;
  at::Device device;
  MemoryCap cap;
  std::vector<at::Tensor> initial;  ///< on the host
  Examples all;
  std::int64_t held = 0;  ///< bytes of parameters
  std::int64_t room = 0;  ///< bytes that a step may take beside them

 private:
  [[nodiscard]] std::int64_t taken_by_a_plain_batch_that_fits();
  std::array<std::optional<ExactGradients>, batches> exact_;
};

/// The loss of a batch, or its part of one: the mean over `of` samples.
at::Tensor mean_loss(const at::Tensor& scores, const at::Tensor& classes);

/// What is allowed to those who add up gradients sample by sample, each time with a rounding: 2.1 times as
/// far as the plain batch's were found for 1024 samples, 3.6 times for 4096.
double times_plain_of_single_sums(std::int64_t samples);

/// A way to train.
class Trainer : public Stepper {
 public:
  explicit Trainer(TrainingFixture& fixture);

  void prepare(int set) override;
  void step(int set) final;
  void remember(int /*set*/) override {}
  harness::Check check(int set) override;
  std::string fingerprint(int set) override;
  void conclude(reports::Record& record) override;
  [[nodiscard]] std::int64_t payload_bytes() const override;
  [[nodiscard]] std::int64_t index_bytes() const override;

  /// Steps under the cap until there is nothing left to find out. @throws CannotRun where memory runs out
  void rehearse();

 protected:
  /// Leaves the gradients of the batch in the parameters' `.grad`, where there are none before.
  virtual void gradients(int set) = 0;
  virtual void update();
  /// After a step that ran out of memory: true where a smaller micro-batch is to be tried.
  virtual bool take_smaller() { return false; }
  /// After a step that worked: true where the next one may do otherwise.
  virtual bool still_searching() { return false; }
  /// Samples that go through the model at a time.
  [[nodiscard]] virtual std::int64_t at_once() const = 0;
  /// How many times as far from the exact gradients as the plain batch's they may be.
  [[nodiscard]] virtual double most_times_plain() const { return 2; }

  [[nodiscard]] std::int64_t samples() const { return fixture_.id.batch; }
  /// On the model's device.
  [[nodiscard]] Examples fetch(int set, std::int64_t first, std::int64_t count) const;

  TrainingFixture& fixture_;
  std::vector<at::Tensor> parameters_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;

 private:
  double difference_ = 0;  ///< that was checked: the largest of the plain batch's
  double plain_difference_ = 0;
  std::int64_t taken_ = 0;  ///< bytes, likewise
};

/// `open` of a Trainer: rehearsed.
template <class OneTrainer>
std::unique_ptr<Stepper> trainer_in(const reports::Identity& /*id*/, StepFixture& fixture) {
  auto trainer = std::make_unique<OneTrainer>(static_cast<TrainingFixture&>(fixture));
  trainer->rehearse();
  return trainer;
}

/// True where the case leaves the size of micro-batches to who trains; those that have none are only there.
bool finds_size(const reports::Identity& id);

}  // namespace stbench
