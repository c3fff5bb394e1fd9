/// One functor per optimizer: the step of one element of a parameter and its states. The loops of
/// sparse_step.cpp, flat_step.cpp and their CUDA versions use it. C++17, so that CUDA sources can include it.
///
/// An update is constructed from the optimizer's options and has
/// - `kStates`, the number of states of an element, their `names()` and initial values `initial(k)`;
/// - `at(step)`: the values that depend on the number of the step (from 1), in double as Python computes
///   them;
/// - `apply<Math>(now, param, grad, state)`: the step, on values in registers, the gradient by value.
///
/// The order of operations is that of torch 2.11's single-tensor implementations, with one rounding where
/// ATen has one. `Math::mul_add(a, b, c)` is a * b + c, fused if the processor can; all other operations
/// round (sources that use this are compiled without contraction). docs/updates.md says which results are
/// equal bit for bit. Conditions on options are the same for all elements, so compilers hoist them out of
/// loops.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>

#include "speedtorch/kernels/host_device.h"
#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch::kernels {

// ATen's arithmetic, including NaN.

/// The larger; NaN if either is.
template <class T>
SPEEDTORCH_INLINE T maximum(T a, T b) {
  return a >= b || a != a ? a : b;
}

template <class T>
SPEEDTORCH_INLINE T sign_of(T a) {
  return static_cast<T>(a > 0) - static_cast<T>(a < 0);
}

/// From `a` towards `b`, computed from the nearer end.
template <class Math, class T>
SPEEDTORCH_INLINE T lerp(T a, T b, T weight) {
  const T way = b - a;
  return weight < T(0.5) ? Math::mul_add(weight, way, a) : Math::mul_add(weight - T(1), way, b);
}

/// The unsigned integer of T's size.
template <class T>
using Bits = std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;

/// `a` if the mask is all ones, `b` if it is zero; computes both. The compiler would hoist a condition out of
/// the loop, and with it the read of a state that is then only written, which is slower. (26 million elements
/// of a buffer took 39 ms write-only and 18 ms with the read, on a virtual machine with an Intel Xeon,
/// Sapphire Rapids.)
template <class T>
SPEEDTORCH_INLINE T selected(Bits<T> mask, T a, T b) {
  Bits<T> ones, zeros;
  std::memcpy(&ones, &a, sizeof ones);
  std::memcpy(&zeros, &b, sizeof zeros);
  const Bits<T> bits = (ones & mask) | (zeros & ~mask);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// `mean` decayed, plus weight * grad².
template <class Math, class T>
SPEEDTORCH_INLINE T square_mean(T mean, T grad, T decay, T weight) {
  return Math::mul_add(weight * grad, grad, mean * decay);
}

/// The first change of a gradient in most optimizers: its sign and the weight decay.
template <class T>
struct Descent {
  T weight_decay;
  T sign;  ///< -1 to maximize; an exact product costs less than a condition

  Descent(double decay, bool maximize) : weight_decay(T(decay)), sign(T(maximize ? -1 : 1)) {}

  template <class Math>
  SPEEDTORCH_INLINE T of(T param, T grad) const {
    const T sent = sign * grad;
    return weight_decay != 0 ? Math::mul_add(weight_decay, param, sent) : sent;
  }
};

/// Common to updates with kCount states, which all begin at zero by default.
template <class T, std::size_t kCount>
struct UpdateBase {
  using Element = T;
  static constexpr std::size_t kStates = kCount;
  double initial(std::size_t /*state*/) const { return 0; }
};

/// Adam, and AdamW, whose decay (`kDecoupled`) shrinks the parameter instead of changing the gradient.
template <class T, bool kDecoupled, bool kAmsgrad>
class AdamUpdate : public UpdateBase<T, kAmsgrad ? 3 : 2> {
 public:
  using Options = std::conditional_t<kDecoupled, AdamWOptions, AdamOptions>;
  struct Now {
    T size;  ///< of the step, negative
    T root;  ///< of the second bias correction
  };

  explicit AdamUpdate(const Options& o)
      : options_(o),
        descent_(kDecoupled ? 0 : o.weight_decay, o.maximize),
        kept_(T(kDecoupled ? 1 - o.lr * o.weight_decay : 1)),
        toward_(T(1 - o.betas.first)),
        decay_(T(o.betas.second)),
        weight_(T(1 - o.betas.second)),
        eps_(T(o.eps)) {}

  static auto names() {
    if constexpr (kAmsgrad)
      return std::array{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    else
      return std::array{"exp_avg", "exp_avg_sq"};
  }

  Now at(std::int64_t step) const {
    const auto n = static_cast<double>(step);
    const double first = 1 - std::pow(options_.betas.first, n);
    const double second = 1 - std::pow(options_.betas.second, n);
    return {T(-(options_.lr / first)), T(std::sqrt(second))};
  }

  template <class Math>
  SPEEDTORCH_INLINE void apply(const Now& now, T& param, T grad, T* state) const {
    const T g = descent_.template of<Math>(param, grad);
    param = param * kept_;
    state[0] = lerp<Math>(state[0], g, toward_);
    state[1] = square_mean<Math>(state[1], g, decay_, weight_);
    T square = state[1];
    if constexpr (kAmsgrad) square = state[2] = maximum(state[2], state[1]);
    const T denominator = Math::square_root(square) / now.root + eps_;
    param = param + now.size * state[0] / denominator;
  }

 private:
  Options options_;
  Descent<T> descent_;
  T kept_, toward_, decay_, weight_, eps_;
};

/// Python torch's SparseAdam, which rounds every product and corrects the step size alone.
template <class T>
class SparseAdamUpdate : public UpdateBase<T, 2> {
 public:
  struct Now {
    T size;  ///< of the step, negative
  };

  explicit SparseAdamUpdate(const SparseAdamOptions& o)
      : options_(o),
        descent_(0, o.maximize),
        first_(T(1 - o.betas.first)),
        second_(T(1 - o.betas.second)),
        eps_(T(o.eps)) {}

  static auto names() { return std::array{"exp_avg", "exp_avg_sq"}; }

  Now at(std::int64_t step) const {
    const auto n = static_cast<double>(step);
    const double first = 1 - std::pow(options_.betas.first, n);
    const double second = 1 - std::pow(options_.betas.second, n);
    return {T(-(options_.lr * std::sqrt(second) / first))};
  }

  template <class Math>
  SPEEDTORCH_INLINE void apply(const Now& now, T& param, T grad, T* state) const {
    const T g = descent_.template of<Math>(param, grad);
    state[0] = state[0] + (g - state[0]) * first_;
    state[1] = state[1] + (g * g - state[1]) * second_;
    param = param + now.size * (state[0] / (Math::square_root(state[1]) + eps_));
  }

 private:
  SparseAdamOptions options_;
  Descent<T> descent_;
  T first_, second_, eps_;
};

template <class T>
class AdagradUpdate : public UpdateBase<T, 1> {
 public:
  struct Now {
    T size;  ///< of the step, negative
  };

  explicit AdagradUpdate(const AdagradOptions& o)
      : options_(o), descent_(o.weight_decay, o.maximize), eps_(T(o.eps)) {}

  static auto names() { return std::array{"sum"}; }
  double initial(std::size_t /*state*/) const { return options_.initial_accumulator_value; }

  Now at(std::int64_t step) const {
    return {T(-(options_.lr / (1 + static_cast<double>(step - 1) * options_.lr_decay)))};
  }

  template <class Math>
  SPEEDTORCH_INLINE void apply(const Now& now, T& param, T grad, T* state) const {
    const T g = descent_.template of<Math>(param, grad);
    state[0] = Math::mul_add(g, g, state[0]);
    param = param + now.size * g / (Math::square_root(state[0]) + eps_);
  }

 private:
  AdagradOptions options_;
  Descent<T> descent_;
  T eps_;
};

/// States: the mean square, then the momentum and the mean gradient, if they exist.
template <class T, bool kMomentum, bool kCentered>
class RMSpropUpdate : public UpdateBase<T, std::size_t{1} + kMomentum + kCentered> {
 public:
  struct Now {};

  explicit RMSpropUpdate(const RMSpropOptions& o)
      : descent_(o.weight_decay, o.maximize),
        size_(T(-o.lr)),
        decay_(T(o.alpha)),
        weight_(T(1 - o.alpha)),
        momentum_(T(o.momentum)),
        eps_(T(o.eps)) {}

  static auto names() {
    if constexpr (kMomentum && kCentered)
      return std::array{"square_avg", "momentum_buffer", "grad_avg"};
    else if constexpr (kMomentum)
      return std::array{"square_avg", "momentum_buffer"};
    else if constexpr (kCentered)
      return std::array{"square_avg", "grad_avg"};
    else
      return std::array{"square_avg"};
  }
  Now at(std::int64_t /*step*/) const { return {}; }

  template <class Math>
  SPEEDTORCH_INLINE void apply(const Now& /*now*/, T& param, T grad, T* state) const {
    const T g = descent_.template of<Math>(param, grad);
    state[0] = square_mean<Math>(state[0], g, decay_, weight_);
    T square = state[0];
    if constexpr (kCentered) {
      T& mean = state[kMomentum ? 2 : 1];
      mean = lerp<Math>(mean, g, weight_);
      square = Math::mul_add(-mean, mean, square);
    }
    const T denominator = Math::square_root(square) + eps_;
    if constexpr (kMomentum) {
      state[1] = state[1] * momentum_ + g / denominator;
      param = Math::mul_add(size_, state[1], param);
    } else {
      param = param + size_ * g / denominator;
    }
  }

 private:
  Descent<T> descent_;
  T size_, decay_, weight_, momentum_, eps_;
};

template <class T, bool kMomentum>
class SGDUpdate : public UpdateBase<T, kMomentum ? 1 : 0> {
 public:
  struct Now {
    bool first;  ///< the momentum starts with the undampened gradient
  };

  explicit SGDUpdate(const SGDOptions& o)
      : descent_(o.weight_decay, o.maximize),
        nesterov_(o.nesterov),
        size_(T(-o.lr)),
        momentum_(T(o.momentum)),
        share_(T(1 - o.dampening)) {}

  static auto names() {
    if constexpr (kMomentum)
      return std::array{"momentum_buffer"};
    else
      return std::array<const char*, 0>{};
  }
  Now at(std::int64_t step) const { return {step == 1}; }

  template <class Math>
  SPEEDTORCH_INLINE void apply([[maybe_unused]] const Now& now, T& param, T grad,
                               [[maybe_unused]] T* state) const {
    T g = descent_.template of<Math>(param, grad);
    if constexpr (kMomentum) {
      state[0] = now.first ? g : Math::mul_add(share_, g, state[0] * momentum_);
      g = nesterov_ ? Math::mul_add(momentum_, state[0], g) : state[0];
    }
    param = Math::mul_add(size_, g, param);
  }

 private:
  Descent<T> descent_;
  bool nesterov_;
  T size_, momentum_, share_;
};

template <class T>
class AdadeltaUpdate : public UpdateBase<T, 2> {
 public:
  struct Now {};

  explicit AdadeltaUpdate(const AdadeltaOptions& o)
      : descent_(o.weight_decay, o.maximize),
        size_(T(-o.lr)),
        decay_(T(o.rho)),
        weight_(T(1 - o.rho)),
        eps_(T(o.eps)) {}

  static auto names() { return std::array{"square_avg", "acc_delta"}; }
  Now at(std::int64_t /*step*/) const { return {}; }

  template <class Math>
  SPEEDTORCH_INLINE void apply(const Now& /*now*/, T& param, T grad, T* state) const {
    const T g = descent_.template of<Math>(param, grad);
    state[0] = square_mean<Math>(state[0], g, decay_, weight_);
    const T delta = Math::square_root(state[1] + eps_) / Math::square_root(state[0] + eps_) * g;
    state[1] = square_mean<Math>(state[1], delta, decay_, weight_);
    param = Math::mul_add(size_, delta, param);
  }

 private:
  Descent<T> descent_;
  T size_, decay_, weight_, eps_;
};

template <class T>
class AdamaxUpdate : public UpdateBase<T, 2> {
 public:
  struct Now {
    T size;  ///< of the step, negative
  };

  explicit AdamaxUpdate(const AdamaxOptions& o)
      : options_(o),
        descent_(o.weight_decay, o.maximize),
        toward_(T(1 - o.betas.first)),
        decay_(T(o.betas.second)),
        eps_(T(o.eps)) {}

  static auto names() { return std::array{"exp_avg", "exp_inf"}; }

  Now at(std::int64_t step) const {
    return {T(-(options_.lr / (1 - std::pow(options_.betas.first, static_cast<double>(step)))))};
  }

  template <class Math>
  SPEEDTORCH_INLINE void apply(const Now& now, T& param, T grad, T* state) const {
    const T g = descent_.template of<Math>(param, grad);
    state[0] = lerp<Math>(state[0], g, toward_);
    state[1] = maximum(state[1] * decay_, (g < 0 ? -g : g) + eps_);
    param = param + now.size * state[0] / state[1];
  }

 private:
  AdamaxOptions options_;
  Descent<T> descent_;
  T toward_, decay_, eps_;
};

/// The running mean `ax` does not affect the parameter. torch keeps the step size and the mean's weight as
/// float32 tensors for every dtype, so they are rounded likewise here.
template <class T>
class ASGDUpdate : public UpdateBase<T, 1> {
 public:
  struct Now {
    T kept;  ///< of the parameter
    T size;  ///< of the step, negative
    T weight;
    Bits<T> follows;  ///< all ones: the mean equals the parameter
  };

  explicit ASGDUpdate(const ASGDOptions& o) : options_(o), descent_(o.weight_decay, o.maximize) {}

  static auto names() { return std::array{"ax"}; }

  Now at(std::int64_t step) const {
    const auto before = static_cast<double>(step - 1);
    const double eta =
        static_cast<float>(options_.lr / std::pow(1 + options_.lambd * options_.lr * before, options_.alpha));
    const auto weight = static_cast<float>(1 / std::max(1.0, before - options_.t0));
    return {T(1 - options_.lambd * eta), T(-eta), T(weight), weight == 1 ? ~Bits<T>{0} : Bits<T>{0}};
  }

  template <class Math>
  SPEEDTORCH_INLINE void apply(const Now& now, T& param, T grad, T* state) const {
    const T g = descent_.template of<Math>(param, grad);
    param = Math::mul_add(now.size, g, param * now.kept);
    state[0] = selected(now.follows, param, state[0] + (param - state[0]) * now.weight);
  }

 private:
  ASGDOptions options_;
  Descent<T> descent_;
};

template <class T>
class RpropUpdate : public UpdateBase<T, 2> {
 public:
  struct Now {};

  explicit RpropUpdate(const RpropOptions& o)
      : descent_(0, o.maximize),
        lr_(o.lr),
        minus_(T(o.etaminus)),
        plus_(T(o.etaplus)),
        least_(T(o.step_size_min)),
        most_(T(o.step_size_max)) {}

  static auto names() { return std::array{"prev", "step_size"}; }
  double initial(std::size_t state) const { return state == 1 ? lr_ : 0; }
  Now at(std::int64_t /*step*/) const { return {}; }

  template <class Math>
  SPEEDTORCH_INLINE void apply(const Now& /*now*/, T& param, T grad, T* state) const {
    const T sent = descent_.template of<Math>(param, grad);
    const T agreed = sent * state[0];
    const T factor = agreed > 0 ? plus_ : agreed < 0 ? minus_ : T(1);
    const T g = agreed < 0 ? T(0) : sent;
    const T grown = state[1] * factor;
    const T raised = grown < least_ ? least_ : grown;
    state[1] = raised > most_ ? most_ : raised;
    param = Math::mul_add(-sign_of(g), state[1], param);
    state[0] = g;
  }

 private:
  Descent<T> descent_;
  double lr_;
  T minus_, plus_, least_, most_;
};

/// Any update, for elements of type T.
template <class T>
using AnyUpdate =
    std::variant<AdamUpdate<T, false, false>, AdamUpdate<T, false, true>, AdamUpdate<T, true, false>,
                 AdamUpdate<T, true, true>, SparseAdamUpdate<T>, AdagradUpdate<T>,
                 RMSpropUpdate<T, false, false>, RMSpropUpdate<T, true, false>, RMSpropUpdate<T, false, true>,
                 RMSpropUpdate<T, true, true>, SGDUpdate<T, false>, SGDUpdate<T, true>, AdadeltaUpdate<T>,
                 AdamaxUpdate<T>, ASGDUpdate<T>, RpropUpdate<T>>;

constexpr std::size_t kMostStates = 3;

/// Creates the update for these options, for float and double. @throws OptionError as check_options()
template <class T>
AnyUpdate<T> make_update(const UpdateOptions& options);

}  // namespace speedtorch::kernels
