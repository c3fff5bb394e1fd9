/// The fixture of a cell of the infinitybatch suite: a net, batches of samples, and a memory cap that a plain
/// batch of the case's `rows` samples fits.
///
/// A step computes the gradients of the whole batch and does SGD's update. It starts from the same parameters
/// each time, so that the gradients are known: LibTorch's autograd computes them in float64 on parts of the
/// batch.
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

/// Samples and their classes.
struct Examples {
  at::Tensor samples, classes;
};

/// The gradients of a batch in float64, and the relative difference of the plain float32 gradients.
struct ExactGradients {
  std::vector<at::Tensor> of;  ///< one per parameter
  double plain_difference = 0;
};

struct TrainingFixture final : StepFixture {
  TrainingFixture(const reports::Identity& id, const StepTerms& terms);
  [[nodiscard]] reports::Columns columns() const override;

  /// `count` samples of a set's batch from `first` on, on the host.
  [[nodiscard]] Examples examples(int set, std::int64_t first, std::int64_t count) const;
  [[nodiscard]] at::Tensor loss(const std::vector<at::Tensor>& parameters, const Examples& of) const;
  /// New leafs with the initial values.
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  /// Computed at the first call, untimed and without a cap.
  const ExactGradients& exact(int set);

  static constexpr double rate = 0.01;
  static constexpr int batches = 2;  ///< the sets rotate over these

  reports::Identity id;
  const Net& net;
  at::Device device;
  MemoryCap cap;
  std::vector<at::Tensor> initial;  ///< on the host
  Examples all;
  std::int64_t held = 0;  ///< bytes of parameters
  std::int64_t room = 0;  ///< bytes that a step may take besides

 private:
  [[nodiscard]] std::int64_t taken_by_a_plain_batch_that_fits();
  std::array<std::optional<ExactGradients>, batches> exact_;
};

/// The mean loss of a batch, or of a part of it.
at::Tensor mean_loss(const at::Tensor& scores, const at::Tensor& classes);

/// The allowed difference for methods that add up gradients sample by sample, with one rounding each, in
/// units of the plain batch's (found: 2.1 for 1024 samples, 3.6 for 4096).
double times_plain_of_single_sums(std::int64_t samples);

/// A training method.
class Trainer : public Stepper {
 public:
  explicit Trainer(TrainingFixture& fixture);

  void prepare(int set) override;
  void step(int set) final;
  [[nodiscard]] bool in_series() const final { return true; }
  void remember(int /*set*/) override {}
  harness::Check check(int set) override;
  std::string fingerprint(int set) override;
  void conclude(reports::Record& record) override;
  [[nodiscard]] std::int64_t payload_bytes() const override;
  [[nodiscard]] std::int64_t index_bytes() const override;

  /// Steps under the cap until the micro-batch size is final. @throws CannotRun if memory runs out
  void rehearse();

 protected:
  /// Leaves the gradients of the batch in the parameters' `.grad`, which is empty before.
  virtual void gradients(int set) = 0;
  virtual void update();
  /// After a step that ran out of memory: true to try a smaller micro-batch.
  virtual bool take_smaller() { return false; }
  /// After a step that fit: true if the next one may use another micro-batch size.
  virtual bool still_searching() { return false; }
  /// Samples that go through the model at a time.
  [[nodiscard]] virtual std::int64_t at_once() const = 0;
  /// The allowed difference from the exact gradients, in units of the plain batch's.
  [[nodiscard]] virtual double most_times_plain() const { return 2; }

  [[nodiscard]] std::int64_t samples() const { return fixture_.id.batch; }
  /// On the model's device.
  [[nodiscard]] Examples fetch(int set, std::int64_t first, std::int64_t count) const;

  TrainingFixture& fixture_;
  std::vector<at::Tensor> parameters_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;

 private:
  double difference_ = 0;  ///< the largest that was checked, relative to the plain batch's
  double plain_difference_ = 0;
  std::int64_t taken_ = 0;  ///< bytes, the most
};

/// `open` for a Trainer: makes and rehearses it.
template <class OneTrainer>
std::unique_ptr<Stepper> trainer_in(const reports::Identity& /*id*/, StepFixture& fixture) {
  auto trainer = std::make_unique<OneTrainer>(static_cast<TrainingFixture&>(fixture));
  trainer->rehearse();
  return trainer;
}

/// Samples of a micro-batch that the case asks for; nothing for `micro_batch=auto`.
std::optional<std::int64_t> asked_size(const reports::Identity& id);

/// True for `micro_batch=auto`: the method chooses its own micro-batch size. Methods without micro-batches
/// run only in such cases.
bool finds_size(const reports::Identity& id);

}  // namespace stbench
