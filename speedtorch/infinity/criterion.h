/// The loss of a batch, and how it follows from the losses of its parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/infinity/callable.h"

namespace speedtorch::infinity {

/// How the loss of a batch follows from the losses of its parts.
enum class Reduction {
  mean,     ///< the mean, weighted by samples
  sum,      ///< the sum
  coupled,  ///< not at all, because the loss of a sample depends on other samples (contrastive losses): takes
            ///< two passes
};

/// One loss, or a weighted sum of several. Copies share the losses.
class Criterion {
 public:
  using Loss = std::function<at::Tensor(const Tensors& outputs, const Tensors& targets)>;
  /// Returns the divisor of the mean over these samples, if it is not their number.
  using Weight = std::function<double(const Tensors& targets)>;

  struct Part {
    std::string name;
    Loss loss;
    /// Evaluated for each batch, because a module's options may change.
    std::function<Reduction()> reduction = [] { return Reduction::mean; };
    Weight weight;  ///< empty: the number of samples
    double factor = 1;
    /// The tensors that the loss holds, such as class weights.
    std::function<Tensors()> tensors = [] { return Tensors(); };
  };

  /// A LibTorch module such as torch::nn::CrossEntropyLoss, whose options determine reduction, class weights
  /// and ignored index; or a callable that returns a tensor without dimensions. Accepted arguments: (output,
  /// target); three tensors, outputs before targets; (outputs, targets) as vectors; (output); (outputs).
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

  /// Adds several criteria, each times its factor. @throws InfinityBatchError if there is none, or if the
  /// numbers of criteria and factors differ
  static Criterion weighted(std::vector<std::pair<std::string, Criterion>> criteria,
                            std::vector<double> factors);

  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  /// The reduction of all parts. `coupled` if they differ or have their own weights; two passes are then
  /// correct.
  [[nodiscard]] Reduction reduction() const;
  /// The divisor of a mean: the number of samples, or their weight. 0 if no sample counts.
  [[nodiscard]] double weight(const Tensors& targets, std::int64_t samples) const;
  [[nodiscard]] bool weighs_targets() const;
  /// All tensors that the losses hold.
  [[nodiscard]] Tensors tensors() const;

  /// Computes the loss, a tensor without dimensions.
  /// @param of_parts receives the loss of each part, before its factor, if there are several
  /// @throws InfinityBatchError if a part returns a vector, even of one element: in a micro-batch of one
  /// sample it may be one loss per sample
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
