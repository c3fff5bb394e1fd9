/// The loss of a batch, and how it is made of the losses of its parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "speedtorch/infinity/callable.h"

namespace speedtorch::infinity {

/// How the loss of a batch follows from losses of parts of it. `mean`: the mean of them, weighted by samples;
/// `sum`: their sum; `coupled`: not at all, because each sample's loss depends on the others (contrastive
/// losses): outputs are then made first, the loss of all of them, and then the model runs again for the
/// gradients.
enum class Reduction { mean, sum, coupled };

/// One loss, or several with factors. Copies are the same.
class Criterion {
 public:
  using Loss = std::function<at::Tensor(const Tensors& outputs, const Tensors& targets)>;
  /// What the mean of these samples is divided by, where that is not their number.
  using Weight = std::function<double(const Tensors& targets)>;

  struct Part {
    std::string name;
    Loss loss;
    /// As it is now: a module's options may be changed.
    std::function<Reduction()> reduction = [] { return Reduction::mean; };
    Weight weight;  ///< empty: the number of samples
    double factor = 1;
    /// What it holds itself, as weights of classes.
    std::function<Tensors()> tensors = [] { return Tensors(); };
  };

  /// A module of LibTorch (torch::nn::CrossEntropyLoss, ...), whose options say the reduction, the weights of
  /// classes and the index to ignore; or any callable of (output, target), of three (outputs, then targets)
  /// or of (outputs, targets) that gives a number (a tensor without dimensions), or of (output) or (outputs)
  /// alone.
  template <class Function>
  requires(!std::is_same_v<std::decay_t<Function>, Criterion>)
      Criterion(Function function)  // NOLINT(google-explicit-constructor): a loss is a criterion
      : parts_{Part{.name = "loss",
                    .loss = wrap(function),
                    .reduction = [function]() mutable { return reduction_of(function); },
                    .weight = weight_of(function),
                    .tensors = [function] { return tensors_of(function); }}} {}

  template <class Function>
  Criterion(Function function, Reduction reduction, Weight weight = {})
      : parts_{Part{.name = "loss",
                    .loss = wrap(function),
                    .reduction = [reduction] { return reduction; },
                    .weight = std::move(weight)}} {}

  /// Several, added. @throws InfinityBatchError where there is none
  static Criterion weighted(std::vector<std::pair<std::string, Criterion>> criteria,
                            std::vector<double> factors);

  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  /// That of all parts; `coupled` where they differ or have weights of their own, which two passes do right.
  [[nodiscard]] Reduction reduction() const;
  /// What a mean is divided by: their number, or what the weight says. 0 where no sample counts.
  [[nodiscard]] double weight(const Tensors& targets, std::int64_t samples) const;
  [[nodiscard]] bool weighs_targets() const;
  /// All tensors that it holds itself.
  [[nodiscard]] Tensors tensors() const;

  /// The loss, one number. @param of_parts gets that of each part, before its factor, where there are
  /// several
  /// @throws InfinityBatchError where a part gives a vector, also one of one element: it would be a loss a
  /// sample of a micro-batch of one
  [[nodiscard]] at::Tensor operator()(const Tensors& outputs, const Tensors& targets,
                                      Tensors* of_parts = nullptr) const;

 private:
  Criterion() = default;

  template <class Function>
  static Loss wrap(Function given) {
    return [function = as_function(given)](const Tensors& outputs,
                                           const Tensors& targets) mutable -> at::Tensor {
      using Called = decltype(function);
      if constexpr (TakesTwo<Called>)
        if (outputs.size() == 1 && targets.size() == 1) return function(outputs[0], targets[0]);
      if constexpr (TakesTwo<Called>)
        if (outputs.size() == 2 && targets.empty()) return function(outputs[0], outputs[1]);
      if constexpr (TakesThree<Called>) {
        Tensors all = outputs;
        all.insert(all.end(), targets.begin(), targets.end());
        if (all.size() == 3) return function(all[0], all[1], all[2]);
      }
      if constexpr (TakesAll<Called>)
        if (targets.empty()) return function(outputs);
      if constexpr (TakesOne<Called>)
        if (outputs.size() == 1 && targets.empty()) return function(outputs[0]);
      if constexpr (std::is_invocable_v<Called&, const Tensors&, const Tensors&>)
        return function(outputs, targets);
      refuse(outputs.size(), targets.size());
    };
  }

  template <class Function>
  static Reduction reduction_of(Function& function) {
    if constexpr (requires { function->options.reduction(); })
      return reduction_named(get_enum_name(function->options.reduction()));
    else
      return Reduction::mean;
  }

  /// Losses over classes divide their mean by the weights of the targets that are not ignored.
  template <class Function>
  static Weight weight_of(Function& function) {
    if constexpr (requires {
                    function->options.ignore_index();
                    function->weight;
                  })
      return [function](const Tensors& targets) mutable {
        return class_weights(function->weight, function->options.ignore_index(), targets);
      };
    return {};
  }

  template <class Function>
  static Tensors tensors_of(const Function& function) {
    if constexpr (requires { function->buffers(); }) return function->buffers();
    return {};
  }

  static Reduction reduction_named(const std::string& name);
  static double class_weights(const at::Tensor& weights, std::int64_t ignored, const Tensors& targets);
  [[noreturn]] static void refuse(std::size_t outputs, std::size_t targets);

  std::vector<Part> parts_;
};

}  // namespace speedtorch::infinity
