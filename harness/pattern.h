/// Regular expressions of the user, in RE2's syntax: any expression takes time and memory linear in the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace stbench::harness {

/// As much of an expression as a message can hold, on one line.
std::string shown_pattern(std::string_view expression);

/// A regular expression that is searched for anywhere in a text.
class Pattern {
 public:
  /// @param option the option that the expression was given with, for the message
  /// @throws UsageError naming the option, the expression and what is wrong with it
  Pattern(const std::string& expression, std::string_view option);

  /// True if it is found somewhere in the text.
  [[nodiscard]] bool is_in(std::string_view text) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace stbench::harness
