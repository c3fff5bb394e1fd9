#include "benchmarks/infinitybatch/fixture.h"

namespace stbench {
namespace {

/// The whole batch at once, as usual if it fits.
class PlainTrainer final : public Trainer {
 public:
  using Trainer::Trainer;

 private:
  void gradients(int set) override { fixture_.loss(parameters_, fetch(set, 0, samples())).backward(); }
  [[nodiscard]] std::int64_t at_once() const override { return samples(); }
};

const RegisterStepMethod registration("infinitybatch", {
                                                           .name = "plain",
                                                           .summary = "LibTorch: the whole batch at once",
                                                           .role = harness::Role::libtorch,
                                                           .supports = finds_size,
                                                           .open = trainer_in<PlainTrainer>,
                                                       });

}  // namespace
}  // namespace stbench
