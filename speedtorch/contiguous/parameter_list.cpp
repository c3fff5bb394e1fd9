#include "speedtorch/contiguous/parameter_list.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "speedtorch/contiguous/flat_buffers.h"
#include "speedtorch/tensors.h"

namespace speedtorch {

std::string layout_obstacle(const at::Tensor& tensor) {
  if (!tensor.defined()) return "is not defined; take the parameters of a module";
  if (!tensor.requires_grad()) return {};  // stays where it is
  if (tensor.layout() != at::kStrided)
    return "is not strided; use SparseRows or a separate optimizer for sparse parameters";
  const auto dtype = tensor.scalar_type();
  const bool known = dtype == at::kFloat || dtype == at::kDouble || is_half(dtype);
  std::ostringstream text;
  if (!known)
    text << "is of " << dtype << "; float32, float64, float16 or bfloat16 is needed";
  else if (is_lazy(tensor))
    text << "is a negation or zeros that LibTorch has not computed yet; pass its clone()";
  else if (!tensor.is_leaf())
    text << "is no leaf: an optimizer cannot change the tensors that it was computed from";
  else if (tensor.is_inference())
    text << "was created in inference mode and cannot be trained";
  return text.str();
}

ParameterList::ParameterList(std::vector<ParameterGroup> from) {
  for (std::size_t g = 0; g < from.size(); ++g) {
    auto& [tensors, given, options] = from[g];
    if (!given.empty() && given.size() != tensors.size()) {
      throw BufferError("a group of " + std::to_string(tensors.size()) + " parameters has " +
                        std::to_string(given.size()) + " names; none or as many are needed");
    }
    for (std::size_t k = 0; k < tensors.size(); ++k) add(tensors[k], given.empty() ? "" : given[k], g);
  }
  check_no_overlap();
}

void ParameterList::add(const at::Tensor& tensor, const std::string& name, std::size_t group) {
  const auto called = name.empty() ? "parameter " + std::to_string(parameters.size()) : name;
  if (const auto why = layout_obstacle(tensor); !why.empty()) throw BufferError(called + " " + why);
  const auto [known, is_new] = numbers_.emplace(tensor.unsafeGetTensorImpl(), parameters.size());
  if (!is_new) {
    if (groups[known->second] == group) return;
    throw BufferError(called + " is in two groups; it can be updated in one way only");
  }
  parameters.push_back(tensor);
  names.push_back(called);
  groups.push_back(group);
  if (tensor.numel() > 0 && tensor.has_storage()) add_extent(tensor);
}

void ParameterList::add_extent(const at::Tensor& tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> strides;  // each with its size
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.size(d) > 1) strides.emplace_back(tensor.stride(d), tensor.size(d));
  std::sort(strides.begin(), strides.end());
  std::int64_t last = 0;  // offset of the last element in the dimensions so far
  for (const auto& [stride, size] : strides) {
    if (tensor.requires_grad() && stride <= last)
      throw BufferError(names.back() + (stride == 0 ? " is expanded: several of its elements are one; give "
                                                      "the tensor before expand()"
                                                    : " has strides by which its elements may overlap; give "
                                                      "its contiguous() clone"));
    last += (size - 1) * stride;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  if (begin == 0) return;  // frozen parameters may be on the meta device
  extents_.push_back({begin, begin + static_cast<std::uintptr_t>((last + 1) * tensor.element_size()),
                      parameters.size() - 1, tensor.requires_grad()});
}

/// Frozen parameters stay where they are, so they may overlap each other.
void ParameterList::check_no_overlap() {
  std::sort(extents_.begin(), extents_.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  const Extent* farthest = nullptr;          // of the extents before, the one that ends last
  const Extent* farthest_trained = nullptr;  // of the trained ones
  for (const auto& extent : extents_) {
    const auto* const before = extent.trained ? farthest : farthest_trained;
    if (before != nullptr && extent.begin < before->end) refuse_shared(*before, extent);
    const auto later = [&](const Extent* one) { return one == nullptr || one->end < extent.end; };
    if (later(farthest)) farthest = &extent;
    if (extent.trained && later(farthest_trained)) farthest_trained = &extent;
  }
}

void ParameterList::refuse_shared(const Extent& first, const Extent& second) const {
  throw BufferError(names[first.parameter] + " and " + names[second.parameter] +
                    " are two tensors that share memory: apart, they would no longer be tied. Register "
                    "one tensor under both names, or clone() one of them");
}

}  // namespace speedtorch
