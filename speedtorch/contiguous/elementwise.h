/// Checks that an optimizer may step the flat buffers of ContiguousParameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace speedtorch {

/// Given parameters that have gradients, returns a function that does one step of an optimizer on them.
using MakeStep = std::function<std::function<void()>(std::vector<at::Tensor> parameters)>;

/// Checks that an optimizer updates each element independently of the shapes around it, and may therefore be
/// given ContiguousParameters::contiguous(). Steps small parameters of three shapes, as they are and flat.
/// @throws BufferError if the results differ (LAMB, LARS, Adafactor); the message names the alternative
void check_elementwise(const std::string& optimizer, const MakeStep& make_step);

}  // namespace speedtorch
