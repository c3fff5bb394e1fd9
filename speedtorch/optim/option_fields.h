/// Visits the options of an optimizer with their names, so that readers and writers need no list per
/// optimizer.
#pragma once

#include <type_traits>

#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch {

/// Calls visit(name, value) for each option, in a fixed order. `Options` may be const. Names are torch's,
/// except that each half of a torch tuple has its own name.
template <class Options, class Visit>
void for_each_option(Options& o, Visit visit) {
  visit("lr", o.lr);
  if constexpr (requires { o.betas; }) {
    visit("beta1", o.betas.first);
    visit("beta2", o.betas.second);
  }
  if constexpr (requires { o.eps; }) visit("eps", o.eps);
  if constexpr (requires { o.weight_decay; }) visit("weight_decay", o.weight_decay);
  if constexpr (requires { o.lr_decay; }) visit("lr_decay", o.lr_decay);
  if constexpr (requires { o.initial_accumulator_value; })
    visit("initial_accumulator_value", o.initial_accumulator_value);
  if constexpr (requires { o.rho; }) visit("rho", o.rho);
  if constexpr (requires { o.lambd; }) visit("lambd", o.lambd);
  if constexpr (requires { o.alpha; }) visit("alpha", o.alpha);
  if constexpr (requires { o.t0; }) visit("t0", o.t0);
  if constexpr (requires { o.momentum; }) visit("momentum", o.momentum);
  if constexpr (requires { o.dampening; }) visit("dampening", o.dampening);
  if constexpr (requires { o.etaminus; }) {
    visit("etaminus", o.etaminus);
    visit("etaplus", o.etaplus);
    visit("step_size_min", o.step_size_min);
    visit("step_size_max", o.step_size_max);
  }
  if constexpr (requires { o.nesterov; }) visit("nesterov", o.nesterov);
  if constexpr (requires { o.centered; }) visit("centered", o.centered);
  if constexpr (requires { o.amsgrad; }) visit("amsgrad", o.amsgrad);
  visit("maximize", o.maximize);
}

/// Returns "Adam" and so on.
template <class Options>
constexpr const char* optimizer_name() {
  if constexpr (std::is_same_v<Options, AdamOptions>) return "Adam";
  if constexpr (std::is_same_v<Options, AdamWOptions>) return "AdamW";
  if constexpr (std::is_same_v<Options, SparseAdamOptions>) return "SparseAdam";
  if constexpr (std::is_same_v<Options, AdagradOptions>) return "Adagrad";
  if constexpr (std::is_same_v<Options, RMSpropOptions>) return "RMSprop";
  if constexpr (std::is_same_v<Options, SGDOptions>) return "SGD";
  if constexpr (std::is_same_v<Options, AdadeltaOptions>) return "Adadelta";
  if constexpr (std::is_same_v<Options, AdamaxOptions>) return "Adamax";
  if constexpr (std::is_same_v<Options, ASGDOptions>) return "ASGD";
  if constexpr (std::is_same_v<Options, RpropOptions>) return "Rprop";
}

}  // namespace speedtorch
