/// Maps NumPy's element types to LibTorch's.
#pragma once

#include <c10/core/ScalarType.h>

#include "speedtorch/files/npy_array.h"

namespace speedtorch {

at::ScalarType dtype_of(NpyElement element);

/// @throws NpyError if NumPy has no such type
NpyElement npy_element_of(at::ScalarType dtype);

}  // namespace speedtorch
