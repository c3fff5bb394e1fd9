#include <torch/nn/utils/clip_grad.h>

#include "benchmarks/contiguous/fixture.h"
#include "benchmarks/steps/libtorch_optimizer.h"

namespace stbench {
namespace {

/// torch::optim, which loops over the parameters: the usual C++ training loop.
class TorchOptimStep final : public ListStepper {
 public:
  TorchOptimStep(const reports::Identity& id, ContiguousFixture& fixture)
      : ListStepper(id, fixture), leafs_(leafs()), optimizer_(fixture.options, leafs_) {
    for (std::size_t k = 0; k < leafs_.size(); ++k)
      optimizer_.set_state(leafs_[k], steps_, places_[k].states);
    attach();
  }
  void prepare(int set) override { ListStepper::prepare(set), attach(); }
  void step(int /*set*/) override {
    if (fixture_.clip > 0) part("clip", [&] { torch::nn::utils::clip_grad_norm_(leafs_, fixture_.clip); });
    part("step", [&] { optimizer_.step(); });
    if (fixture_.clip > 0) part("zero", [&] { optimizer_.zero_grad(); });
    ++steps_;
  }

 private:
  [[nodiscard]] std::vector<at::Tensor> leafs() const {
    std::vector<at::Tensor> leafs;
    for (const auto& param : params_) leafs.push_back(leaf_on(param));
    return leafs;
  }
  void attach() {
    for (std::size_t k = 0; k < leafs_.size(); ++k) leafs_[k].mutable_grad() = places_[k].grad;
  }

  std::vector<at::Tensor> leafs_;
  LibtorchOptimizer optimizer_;
};

/// The same on one flat tensor of all parameters, as SpeedTorch does it.
class FlatStep final : public ListStepper {
 public:
  FlatStep(const reports::Identity& id, ContiguousFixture& fixture)
      : ListStepper(id, fixture, /*flat=*/true),
        leaf_(leaf_on(whole(places_.front().param))),
        optimizer_(fixture.options, {leaf_}) {
    std::vector<at::Tensor> states;
    for (const auto& state : places_.front().states) states.push_back(whole(state));
    optimizer_.set_state(leaf_, steps_, states);
    leaf_.mutable_grad() = whole(places_.front().grad);
  }
  void step(int /*set*/) override {
    if (fixture_.clip > 0) part("clip", [&] { torch::nn::utils::clip_grad_norm_({leaf_}, fixture_.clip); });
    part("step", [&] { optimizer_.step(); });
    if (fixture_.clip > 0) part("zero", [&] { leaf_.mutable_grad().zero_(); });
    ++steps_;
  }
  [[nodiscard]] std::vector<at::Tensor> zeroed() const override { return {leaf_.grad()}; }

 private:
  /// The flat buffer: the first parameter is a view of it.
  [[nodiscard]] at::Tensor whole(const at::Tensor& first) const {
    return first.as_strided({fixture_.elements}, {1}, 0);
  }

  at::Tensor leaf_;
  LibtorchOptimizer optimizer_;
};

std::string libtorch_refusal(const reports::Identity& id) {
  return libtorch_lacks(axis<std::string>(id, "optimizer"));
}

const RegisterStepMethod per_tensor("contiguous", {
                                                      .name = "torch_optim",
                                                      .summary = "LibTorch: torch::optim, tensor by tensor",
                                                      .role = harness::Role::libtorch,
                                                      .skip_reason = libtorch_refusal,
                                                      .open = step_in<ContiguousFixture, TorchOptimStep>,
                                                  });
const RegisterStepMethod flat("contiguous", {
                                                .name = "flat",
                                                .summary = "LibTorch: torch::optim on one flat tensor",
                                                .role = harness::Role::libtorch,
                                                .skip_reason = libtorch_refusal,
                                                .open = step_in<ContiguousFixture, FlatStep>,
                                            });

}  // namespace
}  // namespace stbench
