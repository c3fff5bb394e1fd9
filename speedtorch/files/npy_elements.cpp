#include "speedtorch/files/npy_elements.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace speedtorch {
namespace {

constexpr std::array<std::pair<NpyElement, at::ScalarType>, 15> kDtypes{
    {{NpyElement::boolean, at::kBool},
     {NpyElement::int8, at::kChar},
     {NpyElement::int16, at::kShort},
     {NpyElement::int32, at::kInt},
     {NpyElement::int64, at::kLong},
     {NpyElement::uint8, at::kByte},
     {NpyElement::uint16, at::kUInt16},
     {NpyElement::uint32, at::kUInt32},
     {NpyElement::uint64, at::kUInt64},
     {NpyElement::float16, at::kHalf},
     {NpyElement::float32, at::kFloat},
     {NpyElement::float64, at::kDouble},
     {NpyElement::complex64, at::kComplexFloat},
     {NpyElement::complex128, at::kComplexDouble},
     {NpyElement::bfloat16, at::kBFloat16}}};

}  // namespace

at::ScalarType dtype_of(NpyElement element) {
  return std::ranges::find(kDtypes, element, &std::pair<NpyElement, at::ScalarType>::first)->second;
}

NpyElement npy_element_of(at::ScalarType dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &std::pair<NpyElement, at::ScalarType>::second);
  if (found == kDtypes.end())
    throw NpyError(std::string("NumPy has no elements of type ") + c10::toString(dtype));
  return found->first;
}

}  // namespace speedtorch
