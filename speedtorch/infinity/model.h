/// The model to train: anything that computes outputs from inputs, with its parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/infinity/callable.h"

namespace torch::nn {
class Module;
}

namespace speedtorch::infinity {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// A handle: copies share the model. Reads the module's parameters each time, so that replaced ones are seen.
class Model {
 public:
  using Forward = std::function<Tensors(const Tensors& inputs)>;

  /// A module: torch::nn::Sequential, a TORCH_MODULE, a std::shared_ptr<Net>, or torch::nn::AnyModule.
  /// forward() takes one to three tensors or a vector of them, and returns a tensor, a vector, a pair or a
  /// tuple. The first dimension of each tensor is the samples.
  template <class Module>
  requires(!std::is_same_v<std::decay_t<Module>, Model>)
      Model(Module module)  // NOLINT(google-explicit-constructor): a module is a model
      : module_(shared(module)), forward_([forward = as_function(module)](const Tensors& inputs) mutable {
          return call(forward, inputs);
        }) {}

  /// A callable with the same signatures as forward(), with the parameters that it uses and the buffers that
  /// it changes.
  template <class Function>
  Model(std::vector<at::Tensor> parameters, Function forward, std::vector<at::Tensor> buffers = {})
      : own_parameters_(std::move(parameters)),
        own_buffers_(std::move(buffers)),
        forward_([forward](const Tensors& inputs) mutable { return call(forward, inputs); }) {}

  /// Several models as one; `forward` combines them.
  template <class Function>
  Model(std::vector<Model> parts, Function forward)
      : parts_(std::move(parts)),
        forward_([forward](const Tensors& inputs) mutable { return call(forward, inputs); }) {}

  /// Several models in sequence; each takes the outputs of the one before.
  static Model chain(std::vector<Model> parts);

  /// @throws InfinityBatchError if an output has another number of samples than the inputs
  [[nodiscard]] Tensors operator()(const Tensors& inputs) const;

  /// All current tensors, each once under its first name. `0.weight` belongs to the first part.
  [[nodiscard]] std::vector<NamedTensor> named_parameters() const;
  [[nodiscard]] std::vector<NamedTensor> named_buffers() const;
  /// The same under every name: tied parameters appear several times.
  [[nodiscard]] std::vector<NamedTensor> every_parameter() const;
  /// The same without names, which cost most of the time of a walk through modules.
  [[nodiscard]] Tensors parameters() const;
  [[nodiscard]] Tensors buffers() const;
  /// The parameters() that require a gradient.
  [[nodiscard]] Tensors trainable() const;

  [[nodiscard]] bool training() const;      ///< of its outermost modules; true for a callable
  [[nodiscard]] bool any_training() const;  ///< of any module, nested ones too; true for a callable
  void train(bool on) const;                ///< a no-op for a callable
  /// The mode of each module, for restoring it.
  using Modes = std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>>;
  [[nodiscard]] Modes modes() const;
  static void set_modes(const Modes& modes);
  /// Moves parameters, gradients and buffers. They remain the same tensors. @throws InfinityBatchError naming
  /// a tensor that LibTorch cannot move this way, for example to `meta`
  void to(at::Device device) const;
  /// The device of the first trainable parameter; cpu if there is none.
  [[nodiscard]] at::Device device() const;
  /// The outermost modules; empty for a callable.
  [[nodiscard]] std::vector<std::shared_ptr<torch::nn::Module>> modules() const;
  /// These modules and all nested ones, each before those within it.
  [[nodiscard]] std::vector<std::shared_ptr<torch::nn::Module>> every_module() const;

 private:
  Model() = default;

  enum class Kind { parameters, buffers };
  /// The parameters of its module and parts, also tied ones, and its own.
  [[nodiscard]] std::vector<NamedTensor> every(Kind kind) const;
  /// True if `found` is true of one of the same tensors. Does not ask about those after it.
  bool any_of(Kind kind, const std::function<bool(const at::Tensor&)>& found) const;
  [[nodiscard]] Tensors each_once(Kind kind) const;

  template <class Module>
  static std::shared_ptr<torch::nn::Module> shared(Module& module) {
    if constexpr (requires { module.ptr(); })
      return module.ptr();
    else
      return module;
  }

  template <class Function>
  static Tensors call(Function& function, const Tensors& in) {
    if constexpr (TakesOne<Function>)
      if (in.size() == 1) return as_tensors(function(in[0]));
    if constexpr (TakesTwo<Function>)
      if (in.size() == 2) return as_tensors(function(in[0], in[1]));
    if constexpr (TakesThree<Function>)
      if (in.size() == 3) return as_tensors(function(in[0], in[1], in[2]));
    if constexpr (TakesAll<Function>) return as_tensors(function(in));
    refuse_inputs(in.size());
  }

  [[noreturn]] static void refuse_inputs(std::size_t inputs);

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<Model> parts_;
  Tensors own_parameters_;
  Tensors own_buffers_;
  Forward forward_;
};

}  // namespace speedtorch::infinity
