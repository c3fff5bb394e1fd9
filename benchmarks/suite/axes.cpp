#include "benchmarks/suite/axes.h"

#include <fmt/format.h>

#include "harness/errors.h"
#include "harness/suggest.h"

namespace stbench {

void require_known(const std::string& name, const std::string& option,
                   const std::vector<std::string>& known) {
  if (!contains(known, name)) throw UsageError(harness::unknown_name(name, option, known));
}

void require_positive(std::initializer_list<std::pair<const char*, std::int64_t>> values) {
  for (const auto& [name, value] : values) {
    if (value < 1) throw UsageError(fmt::format("{} {}: at least 1 is needed", name, value));
  }
}

}  // namespace stbench
