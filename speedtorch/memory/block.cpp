#include "speedtorch/memory/block.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

std::string sizes_text(at::IntArrayRef sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

}  // namespace

at::Tensor Memory::view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const {
  const auto needed = c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype));
  if (needed > bytes_) {
    throw ShapeError("a tensor of " + sizes_text(sizes) + " needs " + std::to_string(needed) +
                     " bytes, the memory has " + std::to_string(bytes_));
  }
  // The memory outlives a caller's inference mode. Tensors of that mode count no versions, so graphs outside
  // would not see writes to them.
  const c10::InferenceMode counted(false);
  auto seen = new_view(sizes, dtype, on);
  seen.unsafeGetTensorImpl()->set_version_counter(version_);
  return seen;
}

at::Tensor Memory::new_view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const {
  return at::from_blob(
      data(), sizes, [owner = shared_from_this()](void*) {}, at::TensorOptions().dtype(dtype).device(on), on);
}

at::Tensor Memory::host_tensor(at::IntArrayRef sizes, at::ScalarType dtype) const {
  if (!on_host()) throw PlacementError("device memory has no host view; copy it to the host first");
  return view(sizes, dtype, at::kCPU);
}

}  // namespace speedtorch
