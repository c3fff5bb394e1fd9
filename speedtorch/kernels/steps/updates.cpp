#include "speedtorch/kernels/steps/updates.h"

#include <sstream>

#include "speedtorch/kernels/error.h"

namespace speedtorch {
namespace {

/// `right` is a comparison that holds for valid values, so that NaN fails too.
void require(bool right, const char* optimizer, const char* option, double value, const char* wanted) {
  if (right) return;
  std::ostringstream text;
  text << optimizer << ": " << option << " is " << value << "; " << wanted << " is needed";
  throw OptionError(text.str());
}

struct Check {
  const char* name;

  void at_least_0(const char* option, double value) const {
    require(value >= 0, name, option, value, "0 or more");
  }
  void below_1(const char* option, double value) const {
    require(value >= 0 && value < 1, name, option, value, "a number from 0 to below 1");
  }
  void above_0(const char* option, double value) const {
    require(value > 0, name, option, value, "more than 0");
  }
  void betas(const Betas& betas) const {
    below_1("betas.first", betas.first);
    below_1("betas.second", betas.second);
  }
  void rates(double lr, double eps, double weight_decay) const {
    at_least_0("lr", lr);
    at_least_0("eps", eps);
    at_least_0("weight_decay", weight_decay);
  }
};

void check(const AdamOptions& o) {
  Check{"Adam"}.rates(o.lr, o.eps, o.weight_decay);
  Check{"Adam"}.betas(o.betas);
}

void check(const AdamWOptions& o) {
  Check{"AdamW"}.rates(o.lr, o.eps, o.weight_decay);
  Check{"AdamW"}.betas(o.betas);
}

void check(const SparseAdamOptions& o) {
  Check{"SparseAdam"}.above_0("lr", o.lr);
  Check{"SparseAdam"}.above_0("eps", o.eps);
  Check{"SparseAdam"}.betas(o.betas);
}

void check(const AdagradOptions& o) {
  Check{"Adagrad"}.rates(o.lr, o.eps, o.weight_decay);
  Check{"Adagrad"}.at_least_0("lr_decay", o.lr_decay);
  Check{"Adagrad"}.at_least_0("initial_accumulator_value", o.initial_accumulator_value);
}

void check(const RMSpropOptions& o) {
  Check{"RMSprop"}.rates(o.lr, o.eps, o.weight_decay);
  Check{"RMSprop"}.at_least_0("alpha", o.alpha);
  Check{"RMSprop"}.at_least_0("momentum", o.momentum);
}

void check(const SGDOptions& o) {
  Check{"SGD"}.rates(o.lr, 0, o.weight_decay);
  Check{"SGD"}.at_least_0("momentum", o.momentum);
  if (!o.nesterov) return;
  Check{"SGD"}.above_0("momentum (with nesterov)", o.momentum);
  require(o.dampening == 0, "SGD", "dampening (with nesterov)", o.dampening, "0");
}

void check(const AdadeltaOptions& o) {
  Check{"Adadelta"}.rates(o.lr, o.eps, o.weight_decay);
  require(o.rho >= 0 && o.rho <= 1, "Adadelta", "rho", o.rho, "a number from 0 to 1");
}

void check(const AdamaxOptions& o) {
  Check{"Adamax"}.rates(o.lr, o.eps, o.weight_decay);
  Check{"Adamax"}.betas(o.betas);
}

void check(const ASGDOptions& o) { Check{"ASGD"}.rates(o.lr, 0, o.weight_decay); }

void check(const RpropOptions& o) {
  Check{"Rprop"}.at_least_0("lr", o.lr);
  require(o.etaminus > 0 && o.etaminus < 1, "Rprop", "etaminus", o.etaminus, "a number between 0 and 1");
  require(o.etaplus > 1, "Rprop", "etaplus", o.etaplus, "more than 1");
}

}  // namespace

void check_options(const UpdateOptions& options) {
  std::visit([](const auto& one) { check(one); }, options);
}

namespace kernels {
namespace {

template <class T>
AnyUpdate<T> make(const AdamOptions& o) {
  if (o.amsgrad) return AdamUpdate<T, false, true>(o);
  return AdamUpdate<T, false, false>(o);
}

template <class T>
AnyUpdate<T> make(const AdamWOptions& o) {
  if (o.amsgrad) return AdamUpdate<T, true, true>(o);
  return AdamUpdate<T, true, false>(o);
}

template <class T>
AnyUpdate<T> make(const RMSpropOptions& o) {
  if (o.momentum > 0 && o.centered) return RMSpropUpdate<T, true, true>(o);
  if (o.momentum > 0) return RMSpropUpdate<T, true, false>(o);
  if (o.centered) return RMSpropUpdate<T, false, true>(o);
  return RMSpropUpdate<T, false, false>(o);
}

template <class T>
AnyUpdate<T> make(const SGDOptions& o) {
  if (o.momentum != 0) return SGDUpdate<T, true>(o);
  return SGDUpdate<T, false>(o);
}

/// The optimizers with a single update.
template <class T, class Options>
AnyUpdate<T> make(const Options& o) {
  if constexpr (std::is_same_v<Options, SparseAdamOptions>) return SparseAdamUpdate<T>(o);
  if constexpr (std::is_same_v<Options, AdagradOptions>) return AdagradUpdate<T>(o);
  if constexpr (std::is_same_v<Options, AdadeltaOptions>) return AdadeltaUpdate<T>(o);
  if constexpr (std::is_same_v<Options, AdamaxOptions>) return AdamaxUpdate<T>(o);
  if constexpr (std::is_same_v<Options, ASGDOptions>) return ASGDUpdate<T>(o);
  if constexpr (std::is_same_v<Options, RpropOptions>) return RpropUpdate<T>(o);
}

}  // namespace

template <class T>
AnyUpdate<T> make_update(const UpdateOptions& options) {
  check_options(options);
  return std::visit([](const auto& one) { return make<T>(one); }, options);
}

template AnyUpdate<float> make_update(const UpdateOptions&);
template AnyUpdate<double> make_update(const UpdateOptions&);

}  // namespace kernels
}  // namespace speedtorch
