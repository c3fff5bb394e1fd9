#include "speedtorch/infinity/marks.h"

#include <utility>

namespace speedtorch::infinity {

Marks::Mark Marks::mark(const at::Tensor& tensor) {
  return {.version = tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version()),
          .data = tensor.has_storage() ? tensor.storage().data() : nullptr,
          .offset = tensor.has_storage() ? tensor.storage_offset() : 0};
}

Marks::Marks(std::vector<NamedTensor> named) : named_(std::move(named)) {
  for (const NamedTensor& one : named_) marks_.push_back(mark(one.tensor));
}

std::string Marks::changed() const {
  for (std::size_t k = 0; k < named_.size(); ++k)
    if (mark(named_[k].tensor) != marks_[k]) return named_[k].name;
  return {};
}

}  // namespace speedtorch::infinity
