#include "speedtorch/files/npy_elements.h"

#include <algorithm>
#include <array>
#include <string>

namespace speedtorch {
namespace {

/// In the order of NpyElement.
constexpr std::array kDtypes{at::kBool,  at::kChar,   at::kShort,        at::kInt,           at::kLong,
                             at::kByte,  at::kUInt16, at::kUInt32,       at::kUInt64,        at::kHalf,
                             at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble, at::kBFloat16};

}  // namespace

at::ScalarType dtype_of(NpyElement element) { return kDtypes[static_cast<std::size_t>(element)]; }

NpyElement npy_element_of(at::ScalarType dtype) {
  const auto found = std::ranges::find(kDtypes, dtype);
  if (found == kDtypes.end())
    throw NpyError(std::string("NumPy has no elements of type ") + c10::toString(dtype));
  return static_cast<NpyElement>(found - kDtypes.begin());
}

}  // namespace speedtorch
