#include "tests/emulated_gpu/torch/call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "tests/emulated_gpu/torch/precision.h"

namespace emulated_gpu {
namespace {

bool is_generator(const c10::Argument& argument) {
  const auto type = argument.type();
  const auto kind = type->kind();
  if (kind == c10::TypeKind::GeneratorType) return true;
  return kind == c10::TypeKind::OptionalType &&
         type->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::GeneratorType;
}

c10::IValue cpu_generator(std::optional<std::uint64_t> seed) {
  if (!seed) return {};
  return at::make_generator<at::CPUGeneratorImpl>(*seed);
}

/// Indices may lie on the host, and lists are split among the devices.
bool may_mix_devices(const std::string& name) {
  static const std::set<std::string_view> indexing{
      "aten::index",         "aten::index_put",        "aten::index_put_",
      "aten::_unsafe_index", "aten::_index_put_impl_", "aten::_unsafe_index_put"};
  return indexing.count(name) != 0 || name.starts_with("aten::_foreach_");
}

}  // namespace

c10::IValue with_tensors(const c10::IValue& value,
                         const std::function<at::Tensor(const at::Tensor&)>& replace) {
  if (value.isTensor()) return replace(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(replace(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(replace(*tensor)) : std::nullopt);
    return list;
  }
  return value;
}

void for_tensors(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit) {
  with_tensors(value, [&](const at::Tensor& tensor) {
    visit(tensor);
    return tensor;
  });
}

Call::Call(const c10::OperatorHandle& op, Stack& stack) : op_(op), device_(at::kCUDA, 0) {
  const auto count = schema().arguments().size();
  arguments_ = torch::jit::pop(stack, count);
  device_ = find_device();
  refuse_mixed_devices();
}

std::string Call::name() const {
  const auto& full = op_.operator_name();
  return full.overload_name.empty() ? full.name : full.name + "." + full.overload_name;
}

at::Device Call::find_device() const {
  std::optional<at::Device> found;
  for (const auto& argument : arguments_) {
    for_tensors(argument, [&](const at::Tensor& tensor) {
      if (!found && tensor.defined() && tensor.is_cuda()) found = tensor.device();
    });
    if (!found && argument.isDevice() && argument.toDevice().is_cuda()) found = argument.toDevice();
  }
  if (found && found->has_index()) return *found;
  return {at::kCUDA, c10::cuda::current_device()};
}

void Call::refuse_mixed_devices() const {
  if (may_mix_devices(schema().name())) return;
  std::optional<at::Device> first;
  for (std::size_t a = 0; a < arguments_.size(); ++a)
    for_tensors(arguments_[a], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || (tensor.is_cpu() && tensor.dim() == 0 && !is_written(a))) return;
      if (!first) first = tensor.device();
      TORCH_CHECK(*first == tensor.device(),
                  "Expected all tensors to be on the same device, but found at least two devices, ", *first,
                  " and ", tensor.device(), "! (when checking argument for argument ",
                  schema().arguments()[a].name(), " in method ", name(), ")");
    });
}

bool Call::is_written(std::size_t argument) const {
  const auto* const alias = schema().arguments()[argument].alias_info();
  return alias != nullptr && alias->isWrite();
}

bool Call::writes_to_host() const {
  bool found = false;
  for (std::size_t a = 0; a < arguments_.size(); ++a)
    if (is_written(a))
      for_tensors(arguments_[a], [&](const at::Tensor& tensor) {
        found = found || (tensor.defined() && !tensor.is_cuda());
      });
  return found;
}

std::optional<std::size_t> Call::returned_argument(std::size_t result) const {
  const auto* const alias = schema().returns()[result].alias_info();
  if (alias == nullptr || !alias->isWrite()) return std::nullopt;
  for (std::size_t a = 0; a < arguments_.size(); ++a)
    if (is_written(a) && schema().arguments()[a].alias_info()->beforeSets() == alias->beforeSets()) return a;
  return std::nullopt;
}

bool Call::returns_tensors_only() const {
  const auto& returns = schema().returns();
  return std::all_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
    const auto& type = *result.type();
    return type.kind() == c10::TypeKind::TensorType ||
           (type.kind() == c10::TypeKind::ListType &&
            type.expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::TensorType);
  });
}

Stack Call::stack_for(at::DeviceType device, std::optional<std::uint64_t> seed,
                      const std::function<at::Tensor(const at::Tensor&, bool)>& replace) const {
  Stack stack;
  stack.reserve(arguments_.size());
  for (std::size_t a = 0; a < arguments_.size(); ++a) {
    const auto& argument = arguments_[a];
    if (is_generator(schema().arguments()[a]))
      stack.push_back(cpu_generator(seed));
    else if (argument.isDevice())
      stack.emplace_back(at::Device(device));
    else
      stack.push_back(
          with_tensors(argument, [&](const at::Tensor& tensor) { return replace(tensor, is_written(a)); }));
  }
  return stack;
}

void Call::run(c10::DispatchKey device, Stack& stack) const {
  if (device == c10::DispatchKey::CPU)
    run_cpu_kernel(op_, stack);
  else
    op_.redispatchBoxed(c10::DispatchKeySet(device), &stack);
}

FrozenCall::FrozenCall(const Call& call, std::optional<std::uint64_t> seed) : op_(call.op()), seed_(seed) {
  template_ = call.stack_for(at::kCPU, std::nullopt, [&](const at::Tensor& tensor, bool written) {
    if (written) written_.push_back(tensors_.size());
    tensors_.emplace_back(tensor);
    return at::Tensor();
  });
  const auto& arguments = call.schema().arguments();
  for (std::size_t a = 0; a < arguments.size(); ++a)
    if (is_generator(arguments[a])) generator_ = a;
}

Stack FrozenCall::run() const {
  HostStorages storages;
  std::size_t next = 0;
  Stack stack;
  stack.reserve(template_.size());
  for (const auto& argument : template_)
    stack.push_back(
        with_tensors(argument, [&](const at::Tensor&) { return tensors_[next++].on_host(storages); }));
  if (generator_) stack[*generator_] = cpu_generator(seed_);
  run_cpu_kernel(op_, stack);
  for (const auto tensor : written_) tensors_[tensor].mark_written();
  return stack;
}

}  // namespace emulated_gpu
