/// Texts as cells of CSV (RFC 4180) that a spreadsheet shows and does not run.
#pragma once

#include <string>
#include <string_view>

namespace stbench::reports {

/// The cell of a text: UTF-8, quoted where needed, with an apostrophe before what looks like a formula (=, +,
/// -, @, a tab or a line end first). A text that has one already gets another, so that each comes back.
std::string text_cell(std::string_view raw);

/// The cell of a text in quotes that tell it from a number. Only for what needs no guard: a number or
/// nothing.
std::string quoted_cell(std::string_view text);

/// A cell's text as it was before text_cell.
std::string text_of_cell(const std::string& cell);

}  // namespace stbench::reports
