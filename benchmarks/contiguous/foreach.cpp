#include <ATen/ops/_foreach_abs.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_maximum.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "benchmarks/contiguous/world.h"
#include "benchmarks/reference_step.h"

namespace stbench {
namespace {

using namespace speedtorch;

/// LibTorch's operations on lists, one after the other, as Python torch's `foreach` optimizers call them.
class ForeachStep final : public ListStepper {
 public:
  ForeachStep(const reports::Identity& /*id*/, ContiguousWorld& world)
      : ListStepper(world), p_(params()), g_(grads()) {
    for (std::size_t s = 0; s < world.state_names.size(); ++s) s_.push_back(states(s));
  }
  void step(int /*set*/) override {
    if (world_.clip > 0) foreach_clip(g_, world_.clip);
    ++steps_;
    std::visit([this](const auto& options) { apply(options); }, world_.options);
  }

 private:
  template <class Options>
  void adam(const Options& o) {
    const auto n = static_cast<double>(steps_);
    at::_foreach_lerp_(s_[0], g_, 1 - o.betas.first);
    at::_foreach_mul_(s_[1], o.betas.second);
    at::_foreach_addcmul_(s_[1], g_, g_, 1 - o.betas.second);
    if (o.amsgrad) at::_foreach_maximum_(s_[2], s_[1]);
    auto roots = at::_foreach_sqrt(s_[o.amsgrad ? 2 : 1]);
    at::_foreach_div_(roots, std::sqrt(1 - std::pow(o.betas.second, n)));
    at::_foreach_add_(roots, o.eps);
    at::_foreach_addcdiv_(p_, s_[0], roots, -o.lr / (1 - std::pow(o.betas.first, n)));
  }
  void apply(const AdamOptions& o) { adam(o); }
  void apply(const AdamWOptions& o) {
    at::_foreach_mul_(p_, 1 - o.lr * o.weight_decay);
    adam(o);
  }
  void apply(const SGDOptions& o) {
    if (o.momentum == 0) return at::_foreach_add_(p_, g_, -o.lr);
    at::_foreach_mul_(s_[0], o.momentum);
    at::_foreach_add_(s_[0], g_, 1 - o.dampening);
    at::_foreach_add_(p_, s_[0], -o.lr);
  }
  void apply(const AdagradOptions& o) {
    at::_foreach_addcmul_(s_[0], g_, g_, 1);
    auto roots = at::_foreach_sqrt(s_[0]);
    at::_foreach_add_(roots, o.eps);
    at::_foreach_addcdiv_(p_, g_, roots, -o.lr / (1 + static_cast<double>(steps_ - 1) * o.lr_decay));
  }
  void apply(const RMSpropOptions& o) {
    at::_foreach_mul_(s_[0], o.alpha);
    at::_foreach_addcmul_(s_[0], g_, g_, 1 - o.alpha);
    auto roots = at::_foreach_sqrt(s_[0]);
    at::_foreach_add_(roots, o.eps);
    at::_foreach_addcdiv_(p_, g_, roots, -o.lr);
  }
  void apply(const AdamaxOptions& o) {
    at::_foreach_lerp_(s_[0], g_, 1 - o.betas.first);
    at::_foreach_mul_(s_[1], o.betas.second);
    auto sizes = at::_foreach_abs(g_);
    at::_foreach_add_(sizes, o.eps);
    at::_foreach_maximum_(s_[1], sizes);
    at::_foreach_addcdiv_(p_, s_[0], s_[1],
                          -o.lr / (1 - std::pow(o.betas.first, static_cast<double>(steps_))));
  }
  void apply(const AdadeltaOptions& o) {
    at::_foreach_mul_(s_[0], o.rho);
    at::_foreach_addcmul_(s_[0], g_, g_, 1 - o.rho);
    auto roots = at::_foreach_add(s_[0], o.eps);
    at::_foreach_sqrt_(roots);
    auto changes = at::_foreach_add(s_[1], o.eps);
    at::_foreach_sqrt_(changes);
    at::_foreach_div_(changes, roots);
    at::_foreach_mul_(changes, g_);
    at::_foreach_mul_(s_[1], o.rho);
    at::_foreach_addcmul_(s_[1], changes, changes, 1 - o.rho);
    at::_foreach_add_(p_, changes, -o.lr);
  }
  template <class Other>
  void apply(const Other&) {}

  std::vector<at::Tensor> p_, g_;
  std::vector<std::vector<at::Tensor>> s_;
};

template <class Options>
constexpr bool is_written = !std::is_same_v<Options, SparseAdamOptions> &&
                            !std::is_same_v<Options, ASGDOptions> && !std::is_same_v<Options, RpropOptions>;

const RegisterStepMethod registration(
    "contiguous",
    {
        .name = "foreach",
        .summary = "LibTorch: at::_foreach_* on the list",
        .role = harness::Role::libtorch,
        .refuses =
            [](const auto& id) {
              const auto& name = std::get<std::string>(*reports::find(id.axes, "optimizer"));
              const bool has =
                  std::visit([](const auto& one) { return is_written<std::decay_t<decltype(one)>>; },
                             optimizer_named(name));
              return has ? "" : fmt::format("{} is not written in foreach operations here", name);
            },
        .open = step_in<ContiguousWorld, ForeachStep>,
    });

}  // namespace
}  // namespace stbench
