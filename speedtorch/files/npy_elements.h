/// Which elements of NumPy's are which of LibTorch's.
#pragma once

#include <c10/core/ScalarType.h>

#include "speedtorch/files/npy_array.h"

namespace speedtorch {

at::ScalarType dtype_of(NpyElement element);

/// @throws NpyError where NumPy has no such type
NpyElement npy_element_of(at::ScalarType dtype);

}  // namespace speedtorch
