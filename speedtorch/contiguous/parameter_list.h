/// Takes the distinct parameters of groups into one list, and refuses what cannot be laid out. Internal.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "speedtorch/contiguous/parameter_group.h"

namespace speedtorch {

/// The reason why a tensor cannot be laid out in a buffer: "is of Long; float32, ... is needed". Empty if it
/// can, or if it is frozen.
std::string layout_obstacle(const at::Tensor& tensor);

class ParameterList {
 public:
  /// @throws BufferError for a tensor that has a layout_obstacle(), is in two groups, overlaps itself, or
  /// shares memory with another tensor one of which is trained
  explicit ParameterList(std::vector<ParameterGroup> from);

  std::vector<at::Tensor> parameters;  ///< each once, in the order given
  std::vector<std::string> names;
  std::vector<std::size_t> groups;  ///< of each parameter

 private:
  struct Extent {
    std::uintptr_t begin, end;
    std::size_t parameter;
    bool trained;
  };

  void add(const at::Tensor& tensor, const std::string& name, std::size_t group);
  void add_extent(const at::Tensor& tensor);
  void check_no_overlap();
  [[noreturn]] void refuse_shared(const Extent& first, const Extent& second) const;

  std::unordered_map<const void*, std::size_t> numbers_;
  std::vector<Extent> extents_;
};

}  // namespace speedtorch
