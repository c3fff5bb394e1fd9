// The shapes of an operator's results, known before its kernel runs.
#pragma once
#include <optional>

#include "tests/emulated_gpu/torch/call.h"

namespace emulated_gpu {

/// The results and the resized arguments of a call. The tensors have geometry and type, and no values.
struct Shapes {
  Stack results;
  Stack arguments;  ///< the arguments after the call: `out=` ones have been resized
};

/// Returns true if the host needs the device's values before it can go on: the results' sizes depend on them,
/// or they are no tensors. A GPU's operator waits for its stream then.
bool needs_values(const Call& call);

/// Returns the shapes by the operator's meta kernel. Without one, by its CPU kernel on zeros. Nothing if that
/// refuses zeros.
/// @throws c10::Error the meta kernel's error about wrong arguments
std::optional<Shapes> shapes_of(const Call& call);

}  // namespace emulated_gpu
