/// The options of each optimizer. Names, meanings and defaults are those of Python torch 2.11. C++17, so that
/// CUDA sources can include it.
#pragma once

#include <variant>

namespace speedtorch {

/// The decay of the running means of the gradient and its square, each in [0, 1).
struct Betas {
  double first = 0.9;
  double second = 0.999;
};

struct AdamOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
};

struct SparseAdamOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  bool maximize = false;
};

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
};

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  ///< needs momentum, and no dampening
  bool maximize = false;
};

struct AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};

struct AdamaxOptions {
  double lr = 2e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
};

struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
  double weight_decay = 0;
  bool maximize = false;
};

struct RpropOptions {
  double lr = 1e-2;
  double etaminus = 0.5;
  double etaplus = 1.2;
  double step_size_min = 1e-6;
  double step_size_max = 50;
  bool maximize = false;
};

using UpdateOptions =
    std::variant<AdamOptions, AdamWOptions, SparseAdamOptions, AdagradOptions, RMSpropOptions, SGDOptions,
                 AdadeltaOptions, AdamaxOptions, ASGDOptions, RpropOptions>;

/// @throws OptionError naming the option, its value and what would be right, by the rules of Python torch
void check_options(const UpdateOptions& options);

}  // namespace speedtorch
