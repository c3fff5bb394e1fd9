#include "benchmarks/infinitybatch/fixture.h"

namespace stbench {
namespace {

/// Forward and backward of one sample at a time, adding up the gradients.
class OneByOneTrainer final : public Trainer {
 public:
  using Trainer::Trainer;

 private:
  void gradients(int set) override {
    const double weight = 1 / static_cast<double>(samples());
    for (std::int64_t sample = 0; sample < samples(); ++sample)
      fixture_.loss(parameters_, fetch(set, sample, 1)).mul(weight).backward();
  }
  [[nodiscard]] std::int64_t at_once() const override { return 1; }
  [[nodiscard]] double most_times_plain() const override { return times_plain_of_single_sums(samples()); }
};

const RegisterStepMethod registration("infinitybatch",
                                      {
                                          .name = "one_by_one",
                                          .summary = "LibTorch: one sample at a time, forward and backward",
                                          .role = harness::Role::libtorch,
                                          .supports = finds_size,
                                          .open = trainer_in<OneByOneTrainer>,
                                      });

}  // namespace
}  // namespace stbench
