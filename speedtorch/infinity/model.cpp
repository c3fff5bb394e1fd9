#include "speedtorch/infinity/model.h"

#include <ATen/ops/_has_compatible_shallow_copy_type.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_set>

#include "speedtorch/infinity/errors.h"

namespace speedtorch::infinity {
namespace {

using torch::nn::Module;

const void* identity_of(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

/// Each tensor once, under the first of its names.
std::vector<NamedTensor> named_once(std::vector<NamedTensor> all) {
  std::unordered_set<const void*> seen;
  std::erase_if(all, [&](const NamedTensor& named) {
    return !named.tensor.defined() || !seen.insert(identity_of(named.tensor)).second;
  });
  return all;
}

void append_part(std::vector<NamedTensor>& all, std::size_t part, std::vector<NamedTensor> of_part) {
  for (NamedTensor& named : of_part)
    all.push_back({std::to_string(part) + "." + named.name, std::move(named.tensor)});
}

void append_numbered(std::vector<NamedTensor>& all, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) all.push_back({std::to_string(all.size()), tensor});
}

/// Keeps each tensor once. Makes a set only if one is there twice, because a set allocates for each tensor.
void erase_repeated(Tensors& tensors) {
  std::vector<const void*> sorted(tensors.size());
  std::ranges::transform(tensors, sorted.begin(), identity_of);
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) == sorted.end()) return;
  std::unordered_set<const void*> seen;
  std::erase_if(tensors, [&](const at::Tensor& tensor) { return !seen.insert(identity_of(tensor)).second; });
}

/// True if `found` is true of the module or of one within it. Asks each before those within it.
bool any_module(const Module& module, const auto& found) {
  if (found(module)) return true;
  return std::ranges::any_of(module.children(), [&](const auto& child) { return any_module(*child, found); });
}

}  // namespace

Model Model::chain(std::vector<Model> parts) {
  Model chained;
  chained.parts_ = parts;
  chained.forward_ = [parts = std::move(parts)](const Tensors& inputs) {
    Tensors values = inputs;
    for (const Model& part : parts) values = part(values);
    return values;
  };
  return chained;
}

Tensors Model::operator()(const Tensors& inputs) const {
  Tensors outputs = forward_(inputs);
  const std::int64_t samples = inputs.front().size(0);
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.dim() > 0 && output.size(0) == samples) continue;
    throw InfinityBatchError("the model made an output of shape " +
                             (output.defined() ? c10::str(output.sizes()) : "none") + " of " +
                             std::to_string(samples) + " samples; its first dimension must be the samples");
  }
  return outputs;
}

std::vector<NamedTensor> Model::every(Kind kind) const {
  std::vector<NamedTensor> all;
  const bool buffers = kind == Kind::buffers;
  if (module_)
    for (const auto& item : buffers ? module_->named_buffers() : module_->named_parameters())
      all.push_back({item.key(), item.value()});
  for (std::size_t part = 0; part < parts_.size(); ++part) append_part(all, part, parts_[part].every(kind));
  append_numbered(all, buffers ? own_buffers_ : own_parameters_);
  return all;
}

std::vector<NamedTensor> Model::every_parameter() const { return every(Kind::parameters); }
std::vector<NamedTensor> Model::named_parameters() const { return named_once(every(Kind::parameters)); }
std::vector<NamedTensor> Model::named_buffers() const { return named_once(every(Kind::buffers)); }

bool Model::any_of(Kind kind, const std::function<bool(const at::Tensor&)>& found) const {
  const bool buffers = kind == Kind::buffers;
  const auto of_module = [&](const Module& module) {
    const auto tensors = buffers ? module.named_buffers(false) : module.named_parameters(false);
    return std::ranges::any_of(tensors, [&](const auto& item) { return found(item.value()); });
  };
  return (module_ && any_module(*module_, of_module)) ||
         std::ranges::any_of(parts_, [&](const Model& part) { return part.any_of(kind, found); }) ||
         std::ranges::any_of(buffers ? own_buffers_ : own_parameters_, found);
}

Tensors Model::each_once(Kind kind) const {
  Tensors all;
  any_of(kind, [&](const at::Tensor& tensor) {
    if (tensor.defined()) all.push_back(tensor);
    return false;
  });
  erase_repeated(all);
  return all;
}

Tensors Model::parameters() const { return each_once(Kind::parameters); }
Tensors Model::buffers() const { return each_once(Kind::buffers); }

Tensors Model::trainable() const {
  Tensors all = parameters();
  std::erase_if(all, [](const at::Tensor& tensor) { return !tensor.requires_grad(); });
  return all;
}

bool Model::training() const {
  for (const auto& module : modules())
    if (!module->is_training()) return false;
  return true;
}

bool Model::any_training() const {
  const auto outermost = modules();
  const auto trains = [](const Module& module) { return module.is_training(); };
  return outermost.empty() ||
         std::ranges::any_of(outermost, [&](const auto& module) { return any_module(*module, trains); });
}

Model::Modes Model::modes() const {
  Modes modes;
  for (auto& module : every_module()) {
    const bool training = module->is_training();
    modes.emplace_back(std::move(module), training);
  }
  return modes;
}

/// train() of a module changes the nested modules too; these follow in the list.
void Model::set_modes(const Modes& modes) {
  for (const auto& [module, training] : modes) module->train(training);
}

void Model::train(bool on) const {
  for (const auto& module : modules()) module->train(on);
}

void Model::to(at::Device device) const {
  const auto move = [device](const NamedTensor& named) {
    if (named.tensor.device() == device) return;
    const at::NoGradGuard no_grad;
    at::Tensor tensor = named.tensor;
    const at::Tensor there = tensor.to(device);
    if (!at::_has_compatible_shallow_copy_type(tensor, there))
      throw InfinityBatchError(
          named.name + " cannot move from " + tensor.device().str() + " to " + device.str() +
          " and remain the same tensor, by which optimizers find it; create the model there");
    const at::Tensor gradient = tensor.grad();
    if (gradient.defined()) tensor.mutable_grad() = at::Tensor();
    tensor.set_data(there);
    if (gradient.defined()) tensor.mutable_grad() = gradient.to(device);
  };
  for (const NamedTensor& named : named_parameters()) move(named);
  for (const NamedTensor& named : named_buffers()) move(named);
}

at::Device Model::device() const {
  at::Device device = at::kCPU;
  any_of(Kind::parameters, [&](const at::Tensor& tensor) {
    const bool found = tensor.defined() && tensor.requires_grad();
    if (found) device = tensor.device();
    return found;
  });
  return device;
}

std::vector<std::shared_ptr<torch::nn::Module>> Model::modules() const {
  if (module_) return {module_};
  std::vector<std::shared_ptr<torch::nn::Module>> found;
  for (const Model& part : parts_)
    for (auto& module : part.modules()) found.push_back(std::move(module));
  return found;
}

std::vector<std::shared_ptr<torch::nn::Module>> Model::every_module() const {
  std::vector<std::shared_ptr<torch::nn::Module>> found;
  for (const auto& module : modules())
    for (auto& each : module->modules()) found.push_back(std::move(each));
  return found;
}

void Model::refuse_inputs(std::size_t inputs) {
  throw InfinityBatchError("the model's forward() does not take " + std::to_string(inputs) +
                           " tensors; a batch must have as many inputs as it takes");
}

}  // namespace speedtorch::infinity
