#include "reports/files/csv_cells.h"

#include "reports/utf8.h"

namespace stbench::reports {
namespace {

bool needs_quotes(std::string_view text) {
  return text.find_first_of("\",\r\n") != std::string_view::npos || text.starts_with(' ') ||
         text.ends_with(' ') || text.starts_with('\t') || text.ends_with('\t') ||
         text.starts_with("\xEF\xBB\xBF");
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

/// A text that a spreadsheet would take for a formula, behind any number of guards.
bool looks_like_formula(std::string_view text) {
  const auto first = text.find_first_not_of('\'');
  return first != std::string_view::npos &&
         std::string_view("=+-@\t\r").find(text[first]) != std::string_view::npos;
}

/// With an apostrophe before what looks like a formula: a spreadsheet then shows it and does not run it. A
/// text that has one already gets another, so that each text comes back as it was.
std::string guarded(std::string text) { return looks_like_formula(text) ? "'" + text : text; }

}  // namespace

std::string text_cell(std::string_view raw) {
  const std::string text = guarded(valid_utf8(raw));
  return needs_quotes(text) ? in_quotes(text) : text;
}

std::string quoted_cell(std::string_view text) { return in_quotes(text); }

std::string text_of_cell(const std::string& cell) {
  return cell.starts_with('\'') && looks_like_formula(cell) ? cell.substr(1) : cell;
}

}  // namespace stbench::reports
