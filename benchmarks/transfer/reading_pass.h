/// The pass that direction `consume` adds to a gather: it reads the gathered rows once, as a model does at
/// least.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace stbench {

/// The sum of the tensor's 8-byte words, and of the bytes after the last whole word, modulo 2^64. Read once,
/// on LibTorch's threads.
/// @param rows contiguous, on the host
std::uint64_t sum_of_words(const at::Tensor& rows);

/// The same by one thread and a plain loop, to check it.
std::uint64_t plain_sum_of_words(const at::Tensor& rows);

}  // namespace stbench
