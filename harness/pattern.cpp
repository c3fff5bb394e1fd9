#include "harness/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include "harness/errors.h"
#include "reports/style.h"

namespace stbench::harness {

std::string shown_pattern(std::string_view expression) {
  constexpr std::size_t kShown = 60;
  return reports::shortened(reports::one_line(expression.substr(0, 4 * kShown)), kShown);
}

Pattern::Pattern(const std::string& expression, std::string_view option) {
  RE2::Options options;
  options.set_log_errors(false);  // they are in the exception
  compiled_ = std::make_shared<const RE2>(expression, options);
  if (!compiled_->ok())
    throw UsageError(fmt::format("{} '{}' is no regular expression: {}; RE2's syntax would be right", option,
                                 shown_pattern(expression), shown_pattern(compiled_->error())));
}

bool Pattern::is_in(std::string_view text) const {
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *compiled_);
}

}  // namespace stbench::harness
