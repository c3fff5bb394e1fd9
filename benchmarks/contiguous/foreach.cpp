#include <ATen/ops/_foreach_abs.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_maximum.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "benchmarks/contiguous/fixture.h"
#include "benchmarks/steps/reference_step.h"

namespace stbench {
namespace {

using namespace speedtorch;

/// Calls LibTorch's operations on lists one after the other, as Python torch's `foreach` optimizers do.
class ForeachStep final : public ListStepper {
 public:
  using ListStepper::ListStepper;
  /// Adds Nesterov's momentum to the gradients in place.
  void prepare(int /*set*/) override {
    const auto* const sgd = std::get_if<SGDOptions>(&fixture_.options);
    if (fixture_.clip > 0 || (sgd != nullptr && sgd->nesterov))
      at::_foreach_copy_(grads_, fixture_.gradients);
  }
  void step(int /*set*/) override {
    if (fixture_.clip > 0) part("clip", [&] { foreach_clip(grads_, fixture_.clip); });
    ++steps_;
    part("step", [&] { std::visit([this](const auto& options) { apply(options); }, fixture_.options); });
  }

 private:
  template <class Options>
  void adam(const Options& o) {
    const auto n = static_cast<double>(steps_);
    at::_foreach_lerp_(states_[0], grads_, 1 - o.betas.first);
    at::_foreach_mul_(states_[1], o.betas.second);
    at::_foreach_addcmul_(states_[1], grads_, grads_, 1 - o.betas.second);
    if (o.amsgrad) at::_foreach_maximum_(states_[2], states_[1]);
    auto roots = at::_foreach_sqrt(states_[o.amsgrad ? 2 : 1]);
    at::_foreach_div_(roots, std::sqrt(1 - std::pow(o.betas.second, n)));
    at::_foreach_add_(roots, o.eps);
    at::_foreach_addcdiv_(params_, states_[0], roots, -o.lr / (1 - std::pow(o.betas.first, n)));
  }
  void apply(const AdamOptions& o) { adam(o); }
  void apply(const AdamWOptions& o) {
    at::_foreach_mul_(params_, 1 - o.lr * o.weight_decay);
    adam(o);
  }
  void apply(const SGDOptions& o) {
    if (o.momentum == 0) return at::_foreach_add_(params_, grads_, -o.lr);
    at::_foreach_mul_(states_[0], o.momentum);
    at::_foreach_add_(states_[0], grads_, 1 - o.dampening);
    if (o.nesterov) at::_foreach_add_(grads_, states_[0], o.momentum);
    at::_foreach_add_(params_, o.nesterov ? grads_ : states_[0], -o.lr);
  }
  void apply(const AdagradOptions& o) {
    at::_foreach_addcmul_(states_[0], grads_, grads_, 1);
    auto roots = at::_foreach_sqrt(states_[0]);
    at::_foreach_add_(roots, o.eps);
    at::_foreach_addcdiv_(params_, grads_, roots, -o.lr / (1 + static_cast<double>(steps_ - 1) * o.lr_decay));
  }
  void apply(const RMSpropOptions& o) {
    at::_foreach_mul_(states_[0], o.alpha);
    at::_foreach_addcmul_(states_[0], grads_, grads_, 1 - o.alpha);
    auto roots = at::_foreach_sqrt(states_[0]);
    at::_foreach_add_(roots, o.eps);
    at::_foreach_addcdiv_(params_, grads_, roots, -o.lr);
  }
  void apply(const AdamaxOptions& o) {
    at::_foreach_lerp_(states_[0], grads_, 1 - o.betas.first);
    at::_foreach_mul_(states_[1], o.betas.second);
    auto sizes = at::_foreach_abs(grads_);
    at::_foreach_add_(sizes, o.eps);
    at::_foreach_maximum_(states_[1], sizes);
    at::_foreach_addcdiv_(params_, states_[0], states_[1],
                          -o.lr / (1 - std::pow(o.betas.first, static_cast<double>(steps_))));
  }
  void apply(const AdadeltaOptions& o) {
    at::_foreach_mul_(states_[0], o.rho);
    at::_foreach_addcmul_(states_[0], grads_, grads_, 1 - o.rho);
    auto roots = at::_foreach_add(states_[0], o.eps);
    at::_foreach_sqrt_(roots);
    auto changes = at::_foreach_add(states_[1], o.eps);
    at::_foreach_sqrt_(changes);
    at::_foreach_div_(changes, roots);
    at::_foreach_mul_(changes, grads_);
    at::_foreach_mul_(states_[1], o.rho);
    at::_foreach_addcmul_(states_[1], changes, changes, 1 - o.rho);
    at::_foreach_add_(params_, changes, -o.lr);
  }
  void apply(const ASGDOptions& o) {
    const auto before = static_cast<double>(steps_ - 1);
    const auto changes = at::_foreach_add(grads_, params_, o.lambd);
    at::_foreach_add_(params_, changes, -o.lr / std::pow(1 + o.lambd * o.lr * before, o.alpha));
    const auto ways = at::_foreach_sub(params_, states_[0]);
    at::_foreach_add_(states_[0], ways, 1 / std::max(1.0, before - o.t0));
  }
  /// LibTorch has no list operations that depend on a sign, so this loops over the tensors, as Python's does.
  void apply(const RpropOptions& o) {
    auto factors = at::_foreach_mul(grads_, states_[0]);
    at::_foreach_sign_(factors);
    at::_foreach_copy_(states_[0], grads_);
    for (std::size_t k = 0; k < factors.size(); ++k) {
      auto& factor = factors[k];
      factor.masked_fill_(factor.gt(0), o.etaplus).masked_fill_(factor.lt(0), o.etaminus);
      factor.masked_fill_(factor.eq(0), 1);
      states_[0][k].masked_fill_(factor.lt(1), 0);
    }
    at::_foreach_mul_(states_[1], factors);
    at::_foreach_clamp_min_(states_[1], o.step_size_min);
    at::_foreach_clamp_max_(states_[1], o.step_size_max);
    at::_foreach_addcmul_(params_, at::_foreach_sign(states_[0]), states_[1], -1);
  }
  void apply(const SparseAdamOptions&) {}  // works on rows: the suite has no such case
};

const RegisterStepMethod registration("contiguous", {
                                                        .name = "foreach",
                                                        .summary = "LibTorch: at::_foreach_* on the list",
                                                        .role = harness::Role::libtorch,
                                                        .open = step_in<ContiguousFixture, ForeachStep>,
                                                    });

}  // namespace
}  // namespace stbench
