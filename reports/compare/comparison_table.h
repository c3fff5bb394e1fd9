/// A comparison as text for the terminal and as Markdown for a pull request's comment.
#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/style.h"

namespace stbench::reports {

struct ComparisonView {
  double effect = 0.02;                 ///< for the summary
  bool all = false;                     ///< the rows that are the same, and all that are unresolved, too
  std::string word;                     ///< of the conclusion; the heading of the Markdown
  std::string conclusion;               ///< stands first
  Paint paint = Paint::none;            ///< of the conclusion
  std::vector<std::string> about = {};  ///< which reports were compared, in sentences; Markdown only
};

/// How many of each verdict, the rows by verdict (the worst first), the notes.
std::string comparison_table(const Comparison& comparison, const ComparisonView& view, Style style);

/// The same as Markdown, with the change alone of each row's figures. Texts of a report are escaped, or stand
/// as code: no table, link, mention or tag comes from them.
std::string comparison_markdown(const Comparison& comparison, const ComparisonView& view);

}  // namespace stbench::reports
