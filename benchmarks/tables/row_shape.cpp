#include "benchmarks/tables/row_shape.h"

#include <algorithm>
#include <utility>

#include "speedtorch/error.h"

namespace stbench {
namespace {

constexpr const char* rows_of_bytes = "bytes";

constexpr std::pair<const char*, at::ScalarType> dtype_names[] = {
    {"float16", at::kHalf},   {"bfloat16", at::kBFloat16}, {"float32", at::kFloat},
    {"float64", at::kDouble}, {"int8", at::kChar},         {"int32", at::kInt},
    {"int64", at::kLong},     {"uint8", at::kByte},        {"int16", at::kShort}};

at::ScalarType widest(std::int64_t row_bytes) {
  if (row_bytes % 8 == 0) return at::kLong;
  if (row_bytes % 4 == 0) return at::kInt;
  return row_bytes % 2 == 0 ? at::kShort : at::kByte;
}

}  // namespace

std::optional<at::ScalarType> dtype_named(const std::string& name) {
  if (name == rows_of_bytes) return std::nullopt;
  for (const auto& [known, dtype] : dtype_names) {
    if (name == known) return dtype;
  }
  throw speedtorch::ShapeError("unknown dtype '" + name + "'");
}

std::string dtype_name(std::optional<at::ScalarType> dtype) {
  if (!dtype) return rows_of_bytes;
  const auto found = std::ranges::find(dtype_names, *dtype, &std::pair<const char*, at::ScalarType>::second);
  return found == std::end(dtype_names) ? c10::toString(*dtype) : found->first;
}

RowShape row_shape(std::optional<at::ScalarType> dtype, std::int64_t rows, std::int64_t dim) {
  const auto element = dtype.value_or(widest(dim));
  return {rows, dtype ? dim : dim / static_cast<std::int64_t>(c10::elementSize(element)), element};
}

RowShape shape_of(const reports::Identity& id) { return row_shape(dtype_named(id.dtype), id.rows, id.dim); }

}  // namespace stbench
