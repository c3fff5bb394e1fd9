#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <variant>

#include "benchmarks/contiguous/fixture.h"
#include "benchmarks/steps/reference_step.h"

namespace stbench {
namespace {

using namespace speedtorch;

/// LibTorch's fused kernels on the list of parameters. C++ has them as operations only, for four optimizers.
class TorchFusedStep final : public ListStepper {
 public:
  TorchFusedStep(const reports::Identity& id, ContiguousFixture& fixture) : ListStepper(id, fixture) {
    for (std::size_t k = 0; k < params_.size(); ++k)
      counts_.push_back(at::full({}, static_cast<double>(steps_), params_[k].options()));
  }
  void step(int /*set*/) override {
    if (fixture_.clip > 0) part("clip", [&] { foreach_clip(grads_, fixture_.clip); });
    part("step", [&] { std::visit([this](const auto& options) { apply(options); }, fixture_.options); });
    ++steps_;
  }

 private:
  void count() { at::_foreach_add_(counts_, 1); }

  void apply(const AdamOptions& o) {
    count();
    at::_fused_adam_(params_, grads_, states_[0], states_[1],
                     o.amsgrad ? states_[2] : std::vector<at::Tensor>(), counts_, o.lr, o.betas.first,
                     o.betas.second, o.weight_decay, o.eps, o.amsgrad, false);
  }
  void apply(const AdamWOptions& o) {
    count();
    at::_fused_adamw_(params_, grads_, states_[0], states_[1], {}, counts_, o.lr, o.betas.first,
                      o.betas.second, o.weight_decay, o.eps, false, false);
  }
  void apply(const SGDOptions& o) {
    at::_fused_sgd_(params_, grads_, o.momentum != 0 ? states_[0] : std::vector<at::Tensor>(), o.weight_decay,
                    o.momentum, o.lr, o.dampening, o.nesterov, false, false);
  }
  void apply(const AdagradOptions& o) {
    count();
    at::_fused_adagrad_(params_, grads_, states_[0], counts_, o.lr, o.lr_decay, o.weight_decay, o.eps, false);
  }
  template <class Other>
  void apply(const Other&) {}

  std::vector<at::Tensor> counts_;
};

template <class Options>
constexpr bool has_kernel = std::is_same_v<Options, AdamOptions> || std::is_same_v<Options, AdamWOptions> ||
                            std::is_same_v<Options, SGDOptions> || std::is_same_v<Options, AdagradOptions>;

const RegisterStepMethod registration(
    "contiguous", {
                      .name = "torch_fused",
                      .summary = "LibTorch: at::_fused_* on the list",
                      .role = harness::Role::libtorch,
                      .skip_reason =
                          [](const auto& id) {
                            const auto& name = axis<std::string>(id, "optimizer");
                            const bool has = std::visit(
                                [](const auto& one) { return has_kernel<std::decay_t<decltype(one)>>; },
                                optimizer_named(name));
                            return has ? "" : fmt::format("LibTorch has no fused kernel for {}", name);
                          },
                      .open = step_in<ContiguousFixture, TorchFusedStep>,
                  });

}  // namespace
}  // namespace stbench
