#include "benchmarks/steps/reference_step.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "benchmarks/suite/registry.h"

namespace stbench {
namespace {

using namespace speedtorch;
using States = std::span<double>;

double sent(double param, double grad, double weight_decay, bool maximize) {
  return (maximize ? -grad : grad) + weight_decay * param;
}

/// Adam: Kingma and Ba 2015, algorithm 1; with `amsgrad` Reddi et al. 2018.
void adam_moments(double g, const Betas& betas, States s) {
  s[0] = betas.first * s[0] + (1 - betas.first) * g;
  s[1] = betas.second * s[1] + (1 - betas.second) * g * g;
}

void adam_step(const Betas& betas, double lr, double eps, bool amsgrad, double step, double& p, double g,
               States s) {
  adam_moments(g, betas, s);
  double square = s[1];
  if (amsgrad) square = s[2] = std::max(s[2], s[1]);
  const double mean = s[0] / (1 - std::pow(betas.first, step));
  const double root = std::sqrt(square / (1 - std::pow(betas.second, step)));
  p -= lr * mean / (root + eps);
}

void apply(const AdamOptions& o, double step, double& p, double g, States s) {
  adam_step(o.betas, o.lr, o.eps, o.amsgrad, step, p, sent(p, g, o.weight_decay, o.maximize), s);
}

void apply(const AdamWOptions& o, double step, double& p, double g, States s) {
  const double kept = p * (1 - o.lr * o.weight_decay);
  p = kept;
  adam_step(o.betas, o.lr, o.eps, o.amsgrad, step, p, o.maximize ? -g : g, s);
}

/// As Adam, but eps is added before the second moment is corrected.
void apply(const SparseAdamOptions& o, double step, double& p, double g, States s) {
  adam_moments(o.maximize ? -g : g, o.betas, s);
  const double size =
      o.lr * std::sqrt(1 - std::pow(o.betas.second, step)) / (1 - std::pow(o.betas.first, step));
  p -= size * s[0] / (std::sqrt(s[1]) + o.eps);
}

/// Duchi et al. 2011.
void apply(const AdagradOptions& o, double step, double& p, double grad, States s) {
  const double g = sent(p, grad, o.weight_decay, o.maximize);
  s[0] += g * g;
  p -= o.lr / (1 + (step - 1) * o.lr_decay) * g / (std::sqrt(s[0]) + o.eps);
}

/// Tieleman and Hinton 2012; centered as Graves 2013.
void apply(const RMSpropOptions& o, double /*step*/, double& p, double grad, States s) {
  const double g = sent(p, grad, o.weight_decay, o.maximize);
  std::size_t next = 0;
  double& square = s[next++];
  square = o.alpha * square + (1 - o.alpha) * g * g;
  double* const buffer = o.momentum > 0 ? &s[next++] : nullptr;
  double variance = square;
  if (o.centered) {
    double& mean = s[next];
    mean = o.alpha * mean + (1 - o.alpha) * g;
    variance -= mean * mean;
  }
  const double direction = g / (std::sqrt(variance) + o.eps);
  if (buffer == nullptr) {
    p -= o.lr * direction;
  } else {
    *buffer = o.momentum * *buffer + direction;
    p -= o.lr * *buffer;
  }
}

void apply(const SGDOptions& o, double step, double& p, double grad, States s) {
  double g = sent(p, grad, o.weight_decay, o.maximize);
  if (o.momentum != 0) {
    s[0] = step == 1 ? g : o.momentum * s[0] + (1 - o.dampening) * g;
    g = o.nesterov ? g + o.momentum * s[0] : s[0];
  }
  p -= o.lr * g;
}

/// Zeiler 2012.
void apply(const AdadeltaOptions& o, double /*step*/, double& p, double grad, States s) {
  const double g = sent(p, grad, o.weight_decay, o.maximize);
  s[0] = o.rho * s[0] + (1 - o.rho) * g * g;
  const double delta = std::sqrt(s[1] + o.eps) / std::sqrt(s[0] + o.eps) * g;
  s[1] = o.rho * s[1] + (1 - o.rho) * delta * delta;
  p -= o.lr * delta;
}

/// Kingma and Ba 2015, algorithm 2.
void apply(const AdamaxOptions& o, double step, double& p, double grad, States s) {
  const double g = sent(p, grad, o.weight_decay, o.maximize);
  s[0] = o.betas.first * s[0] + (1 - o.betas.first) * g;
  s[1] = std::max(o.betas.second * s[1], std::abs(g) + o.eps);
  p -= o.lr / (1 - std::pow(o.betas.first, step)) * s[0] / s[1];
}

/// Polyak and Juditsky 1992.
void apply(const ASGDOptions& o, double step, double& p, double grad, States s) {
  const double g = sent(p, grad, o.weight_decay, o.maximize);
  const double eta = o.lr / std::pow(1 + o.lambd * o.lr * (step - 1), o.alpha);
  const double mu = 1 / std::max(1.0, step - 1 - o.t0);
  p -= o.lambd * eta * p + eta * g;
  s[0] += (p - s[0]) * mu;
}

/// Riedmiller and Braun 1993.
void apply(const RpropOptions& o, double /*step*/, double& p, double grad, States s) {
  double g = o.maximize ? -grad : grad;
  const double agreement = g * s[0];
  if (agreement > 0) s[1] *= o.etaplus;
  if (agreement < 0) s[1] *= o.etaminus, g = 0;
  s[1] = std::clamp(s[1], o.step_size_min, o.step_size_max);
  if (g != 0) p -= g > 0 ? s[1] : -s[1];
  s[0] = g;
}

}  // namespace

const std::vector<NamedOptimizer>& named_optimizers() {
  static const std::vector<NamedOptimizer> all{{"Adam", AdamOptions{}},
                                               {"AMSGrad", AdamOptions{.amsgrad = true}},
                                               {"AdamW", AdamWOptions{}},
                                               {"SparseAdam", SparseAdamOptions{}},
                                               {"Adagrad", AdagradOptions{}},
                                               {"RMSprop", RMSpropOptions{}},
                                               {"SGD", SGDOptions{}},
                                               {"Momentum", SGDOptions{.momentum = 0.9}},
                                               {"Nesterov", SGDOptions{.momentum = 0.9, .nesterov = true}},
                                               {"Adadelta", AdadeltaOptions{}},
                                               {"Adamax", AdamaxOptions{}},
                                               {"ASGD", ASGDOptions{}},
                                               {"Rprop", RpropOptions{}}};
  return all;
}

std::vector<std::string> optimizer_names() { return names_of(named_optimizers()); }

const UpdateOptions& optimizer_named(const std::string& name) {
  return by_name(named_optimizers(), name).options;
}

void reference_step(const UpdateOptions& options, std::int64_t step, double& param, double grad,
                    States states) {
  std::visit([&](const auto& one) { apply(one, static_cast<double>(step), param, grad, states); }, options);
}

}  // namespace stbench
