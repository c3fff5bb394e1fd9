/// What tests of the fused passes compare with: each update with its switches, and arithmetic for plain
/// loops.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch::kernels {

template <bool kFused>
struct PlainMath {
  template <class T>
  static T mul_add(T a, T b, T c) {
    return kFused ? std::fma(a, b, c) : a * b + c;
  }
  template <class T>
  static T square_root(T a) {
    return std::sqrt(a);
  }
};

/// Whether the passes of an instruction set fuse a product and a sum.
inline bool fuses(std::string_view isa) { return isa != "sse2" && isa != "baseline"; }

inline std::vector<UpdateOptions> every_update() {
  return {AdamOptions{.weight_decay = 0.1},
          AdamOptions{.betas = {0.4, 0.9}, .amsgrad = true},
          AdamWOptions{},
          AdamWOptions{.amsgrad = true, .maximize = true},
          SparseAdamOptions{},
          AdagradOptions{.lr_decay = 0.1},
          RMSpropOptions{},
          RMSpropOptions{.momentum = 0.9},
          RMSpropOptions{.weight_decay = 0.1, .centered = true},
          RMSpropOptions{.momentum = 0.9, .centered = true},
          SGDOptions{.weight_decay = 0.1},
          SGDOptions{.momentum = 0.9, .nesterov = true},
          AdadeltaOptions{},
          AdamaxOptions{},
          ASGDOptions{.t0 = 1},
          RpropOptions{}};
}

}  // namespace speedtorch::kernels
