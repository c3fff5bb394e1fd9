#include <algorithm>

#include "benchmarks/infinitybatch/fixture.h"

namespace stbench {
namespace {

/// Gradient accumulation by hand: micro-batches of one size, whose weighted gradients LibTorch adds up in
/// `.grad`.
class AccumulatingTrainer final : public Trainer {
 public:
  explicit AccumulatingTrainer(TrainingFixture& fixture)
      : Trainer(fixture),
        size_(asked_size(fixture.id).value_or(std::min(fixture.id.rows, fixture.id.batch))) {}

 private:
  void gradients(int set) override {
    for (std::int64_t first = 0; first < samples(); first += size_) {
      const auto count = std::min(size_, samples() - first);
      const double weight = static_cast<double>(count) / static_cast<double>(samples());
      fixture_.loss(parameters_, fetch(set, first, count)).mul(weight).backward();
    }
  }
  /// If the size is free, shrinks it by an eighth until a step fits, as an author would do once.
  bool take_smaller() override {
    const auto less = size_ - std::max<std::int64_t>(1, fixture_.id.rows / 8);
    if (!finds_size(fixture_.id) || less < 1) return false;
    size_ = less;
    return true;
  }
  [[nodiscard]] std::int64_t at_once() const override { return std::min(size_, samples()); }

  std::int64_t size_;
};

const RegisterStepMethod registration(
    "infinitybatch", {
                         .name = "accumulate",
                         .summary = "LibTorch: accumulation by hand, in micro-batches of one size",
                         .role = harness::Role::libtorch,
                         .open = trainer_in<AccumulatingTrainer>,
                     });

}  // namespace
}  // namespace stbench
