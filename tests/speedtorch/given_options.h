/// Optimizers and their options by name, for programs that Python drives.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/update_options.h"

namespace speedtorch {

/// Options by name; `betas` are beta1 and beta2, switches are 0 or 1.
using Words = std::map<std::string, double>;

/// Takes an option out of what was given.
class Given {
 public:
  explicit Given(Words words) : words_(std::move(words)) {}

  void operator()(const char* name, double& value) {
    const auto found = words_.find(name);
    if (found == words_.end()) return;
    value = found->second;
    words_.erase(found);
  }
  void operator()(const char* name, bool& value) {
    double number = value ? 1 : 0;
    (*this)(name, number);
    value = number != 0;
  }
  void done() const {
    if (!words_.empty()) throw std::invalid_argument("no option " + words_.begin()->first);
  }

 private:
  Words words_;
};

template <class Options>
void decay_and_sign(Given& given, Options& o) {
  given("weight_decay", o.weight_decay);
  given("maximize", o.maximize);
}

template <class Options>
Options adam(Given& given) {
  Options o;
  given("lr", o.lr);
  given("beta1", o.betas.first);
  given("beta2", o.betas.second);
  given("eps", o.eps);
  given("maximize", o.maximize);
  if constexpr (!std::is_same_v<Options, SparseAdamOptions>) decay_and_sign(given, o);
  if constexpr (std::is_same_v<Options, AdamOptions> || std::is_same_v<Options, AdamWOptions>)
    given("amsgrad", o.amsgrad);
  return o;
}

inline UpdateOptions adagrad(Given& given) {
  AdagradOptions o;
  given("lr", o.lr);
  given("lr_decay", o.lr_decay);
  given("initial_accumulator_value", o.initial_accumulator_value);
  given("eps", o.eps);
  decay_and_sign(given, o);
  return o;
}

inline UpdateOptions rmsprop(Given& given) {
  RMSpropOptions o;
  given("lr", o.lr);
  given("alpha", o.alpha);
  given("eps", o.eps);
  given("momentum", o.momentum);
  given("centered", o.centered);
  decay_and_sign(given, o);
  return o;
}

inline UpdateOptions sgd(Given& given) {
  SGDOptions o;
  given("lr", o.lr);
  given("momentum", o.momentum);
  given("dampening", o.dampening);
  given("nesterov", o.nesterov);
  decay_and_sign(given, o);
  return o;
}

inline UpdateOptions adadelta(Given& given) {
  AdadeltaOptions o;
  given("lr", o.lr);
  given("rho", o.rho);
  given("eps", o.eps);
  decay_and_sign(given, o);
  return o;
}

inline UpdateOptions asgd(Given& given) {
  ASGDOptions o;
  given("lr", o.lr);
  given("lambd", o.lambd);
  given("alpha", o.alpha);
  given("t0", o.t0);
  decay_and_sign(given, o);
  return o;
}

inline UpdateOptions rprop(Given& given) {
  RpropOptions o;
  given("lr", o.lr);
  given("etaminus", o.etaminus);
  given("etaplus", o.etaplus);
  given("step_size_min", o.step_size_min);
  given("step_size_max", o.step_size_max);
  given("maximize", o.maximize);
  return o;
}

/// The options of the optimizer of this name. @throws std::invalid_argument for an option that it has not
inline UpdateOptions options_of(const std::string& name, const Words& words) {
  static const std::map<std::string, std::function<UpdateOptions(Given&)>> optimizers{
      {"Adam", adam<AdamOptions>},
      {"AdamW", adam<AdamWOptions>},
      {"SparseAdam", adam<SparseAdamOptions>},
      {"Adamax", adam<AdamaxOptions>},
      {"Adagrad", adagrad},
      {"RMSprop", rmsprop},
      {"SGD", sgd},
      {"Adadelta", adadelta},
      {"ASGD", asgd},
      {"Rprop", rprop}};
  Given given(words);
  auto options = optimizers.at(name)(given);
  given.done();
  return options;
}

}  // namespace speedtorch
