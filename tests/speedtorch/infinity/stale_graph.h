/// Detects whether autograd notices a write into memory that a graph needs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>
#include <c10/util/Exception.h>

#include <string_view>

namespace speedtorch::test {

/// True if backward() refuses a graph that saved `seen` before `write`, because `seen` has changed.
template <class Write>
bool write_is_noticed(const at::Tensor& seen, Write write) {
  const auto leaf = at::ones_like(seen).requires_grad_();
  const auto loss = (leaf * seen).sum();
  write();
  try {
    loss.backward();
  } catch (const c10::Error& error) {
    return std::string_view(error.what()).find("modified by an inplace operation") != std::string_view::npos;
  }
  return false;
}

}  // namespace speedtorch::test
