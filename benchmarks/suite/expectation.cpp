#include "benchmarks/suite/expectation.h"

#include <fmt/format.h>

#include "harness/errors.h"
#include "reports/number.h"

namespace stbench {

Expectation parse_expectation(const std::string& text, const std::string& option) {
  constexpr std::string_view kRight = "'FILTER>=GBPS', as in 'to hugepage -> speedtorch>=20', would be right";
  const auto at = text.rfind(">=");
  if (at == std::string::npos) throw UsageError(fmt::format("{} '{}' has no >=; {}", option, text, kRight));
  const auto floor = reports::real_from(text.substr(at + 2));
  if (!floor || *floor <= 0)
    throw UsageError(fmt::format("{} '{}': '{}' is no number of GB/s above zero; {}", option, text,
                                 text.substr(at + 2), kRight));
  return {text, harness::Pattern(text.substr(0, at), option), *floor};
}

}  // namespace stbench
