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

using Owner = std::shared_ptr<const Memory>;

}  // namespace

void release_read_only(void* owner) { delete static_cast<Owner*>(owner); }

void refuse_read_only(const std::string& name) {
  throw FileError(name + " is in a file that is open read_only and cannot be written; open it for writing");
}

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
  const auto options = at::TensorOptions().dtype(dtype).device(on);
  if (!writable()) {
    return at::for_blob(data(), sizes)
        .context(new Owner(shared_from_this()), &release_read_only)
        .options(options)
        .target_device(on)
        .make_tensor();
  }
  return at::from_blob(
      data(), sizes, [owner = shared_from_this()](void*) {}, options, on);
}

at::Tensor Memory::host_tensor(at::IntArrayRef sizes, at::ScalarType dtype) const {
  if (!on_host()) throw PlacementError("device memory has no host view; copy it to the host first");
  return view(sizes, dtype, at::kCPU);
}

}  // namespace speedtorch
