/// For fills_test.py: reads lines `KIND DTYPE A B SEED FIRST COUNT` and writes the bytes of those elements of
/// the table, window by window.
#include <ATen/ops/empty.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "speedtorch/tables/fills.h"

namespace {

const std::map<std::string, at::ScalarType> dtypes{
    {"bool", at::kBool},     {"int8", at::kChar},    {"uint8", at::kByte},        {"int16", at::kShort},
    {"uint16", at::kUInt16}, {"int32", at::kInt},    {"uint32", at::kUInt32},     {"int64", at::kLong},
    {"uint64", at::kUInt64}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}, {"float32", at::kFloat},
    {"float64", at::kDouble}};

c10::Scalar number(const std::string& text) {
  if (text.find_first_of(".e") != std::string::npos) return std::strtod(text.c_str(), nullptr);
  if (text.front() == '-') return static_cast<std::int64_t>(std::strtoll(text.c_str(), nullptr, 10));
  return static_cast<std::uint64_t>(std::strtoull(text.c_str(), nullptr, 10));
}

}  // namespace

int main() {
  std::string kind, dtype, a, b;
  std::uint64_t seed = 0;
  std::int64_t first = 0, count = 0;
  while (std::cin >> kind >> dtype >> a >> b >> seed >> first >> count) {
    auto window = at::empty({count}, dtypes.at(dtype));
    if (kind == "uniform") {
      speedtorch::fill(window, speedtorch::Uniform{number(a), number(b), seed}, first);
    } else {
      speedtorch::fill(window, speedtorch::Normal{number(a).toDouble(), number(b).toDouble(), seed}, first);
    }
    std::fwrite(window.data_ptr(), 1, window.nbytes(), stdout);
  }
}
