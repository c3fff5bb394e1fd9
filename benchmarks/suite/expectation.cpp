#include "benchmarks/suite/expectation.h"

#include <fmt/format.h>

#include "benchmarks/suite/suite.h"
#include "harness/errors.h"
#include "reports/number.h"
#include "reports/style.h"

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

std::vector<std::string> unmet(const std::vector<Expectation>& expectations, const reports::Report& report) {
  std::vector<std::string> lines;
  for (const auto& expectation : expectations) {
    bool any = false;
    for (const auto& record : report.records) {
      const auto sentence = case_id_of(record.id);
      if (!record.gb_per_s || !expectation.filter.is_in(sentence)) continue;
      any = true;
      if (*record.gb_per_s < expectation.gb_per_s)
        lines.push_back(fmt::format("{} GB/s, {:g} are expected: {}",
                                    reports::significant(*record.gb_per_s, 3), expectation.gb_per_s,
                                    sentence));
    }
    if (!any)
      lines.push_back(
          fmt::format("nothing measured matches --expect '{}'", harness::shown_pattern(expectation.text)));
  }
  return lines;
}

}  // namespace stbench
