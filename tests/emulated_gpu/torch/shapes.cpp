#include "tests/emulated_gpu/torch/shapes.h"

#include <ATen/ops/zeros.h>

#include <string>
#include <string_view>

#include "tests/emulated_gpu/torch/deferred.h"

namespace emulated_gpu {
namespace {

/// Larger arguments are rehearsed as one zero that is repeated.
constexpr std::int64_t kRehearsedElements = 1 << 16;

bool has_mask(const Call& call) {
  for (const auto& argument : call.arguments()) {
    if (!argument.isOptionalTensorList() && !argument.isTensorList()) continue;
    bool found = false;
    for_tensors(argument, [&](const at::Tensor& tensor) {
      found = found ||
              (tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte));
    });
    if (found) return true;
  }
  return false;
}

at::Tensor rehearsal_tensor(const at::Tensor& tensor, bool written) {
  if (!tensor.defined() || written || tensor.numel() <= kRehearsedElements || !tensor.is_contiguous())
    return shadow_of(tensor, at::kCPU);
  return at::zeros({}, at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU)).expand(tensor.sizes());
}

Shapes run_shadow(const Call& call, Stack stack, c10::DispatchKey key) {
  Shapes shapes;
  shapes.arguments = stack;
  call.run(key, stack);
  shapes.results = std::move(stack);
  return shapes;
}

std::optional<Shapes> shapes_by_meta(const Call& call) {
  if (!call.op().hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return std::nullopt;
  try {
    return run_shadow(
        call,
        call.stack_for(at::kMeta, std::nullopt,
                       [](const at::Tensor& tensor, bool) { return shadow_of(tensor, at::kMeta); }),
        c10::DispatchKey::Meta);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  } catch (const c10::Error& error) {
    // Composite kernels may ask for a value, which meta tensors lack.
    if (std::string_view(error.what_without_backtrace()).find("meta") != std::string_view::npos)
      return std::nullopt;
    throw;
  }
}

std::optional<Shapes> shapes_by_rehearsal(const Call& call) {
  try {
    return run_shadow(call, call.stack_for(at::kCPU, 0, rehearsal_tensor), c10::DispatchKey::CPU);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

bool needs_values(const Call& call) {
  if (!call.returns_tensors_only() || call.writes_to_host()) return true;
  const auto& op = call.op();
  if (op.hasTag(at::Tag::data_dependent_output)) return true;
  // LibTorch's index operators carry the tag for their masks only.
  if (call.schema().name().find("index") != std::string::npos) return has_mask(call);
  return op.hasTag(at::Tag::dynamic_output_shape);
}

std::optional<Shapes> shapes_of(const Call& call) {
  const KernelScope scope;
  if (auto shapes = shapes_by_meta(call)) return shapes;
  return shapes_by_rehearsal(call);
}

}  // namespace emulated_gpu
