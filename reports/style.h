/// Text for a terminal or for Markdown: colour when asked, widths in columns, numbers as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stbench::reports {

enum class Paint { none, bold, dim, good, bad, doubtful };

/// Columns of a line if no terminal gives its width.
inline constexpr std::size_t kScreenWidth = 100;

/// How text is laid out.
struct Style {
  bool coloured = false;             ///< escape codes may be written; they never change the layout
  std::size_t width = kScreenWidth;  ///< columns of a line, at most
  bool markdown = false;             ///< Markdown: one line per paragraph, tables of any width, no colour

  static const Style plain, colour;
};
inline const Style Style::plain{};
inline const Style Style::colour{true};

/// Returns the text for the screen, in colour, or for Markdown, escaped and with bold text in bold.
std::string painted(std::string_view text, Paint paint, Style style);

/// Columns that UTF-8 text takes: its code points, one each.
std::size_t display_width(std::string_view text);
/// At most `width` columns; a text that is cut ends in three dots.
std::string shortened(std::string_view text, std::size_t width);
/// The text on one line: control characters become blanks, bytes that are not UTF-8 U+FFFD.
std::string one_line(std::string_view text);
/// Without the blanks at its end.
std::string trimmed(std::string text);
/// The text with a backslash before each character that Markdown or HTML could take for more than itself. No
/// table, link, mention or tag comes from it.
std::string escaped_markdown(std::string_view text);
/// Lines of at most `width` columns, broken at blanks if that is possible, each but the first indented.
std::vector<std::string> wrapped(std::string_view text, std::size_t width, std::size_t indent);
/// The text as painted lines of the screen, each but the first indented, each with its end. In Markdown, a
/// paragraph.
std::string lines_of(std::string_view text, std::size_t indent, Paint paint = Paint::none,
                     Style style = Style::plain);

/// "1,000,000"
std::string grouped(std::int64_t value);
/// A finite number rounded to so many significant digits, never with an exponent: "8.700", "1234",
/// "0.0007000".
std::string significant(double value, int digits);
/// "6.2×", "410×", and near one "1.04×".
std::string ratio_text(double ratio);
/// A speed-up in words: "2.1× faster", "1.3× slower", "as fast".
std::string faster_text(double speedup);
/// "12 cores", "1 core"
std::string cores_text(std::int64_t cores);
/// "67.1 MB": bytes in powers of 1000.
std::string bytes_text(std::int64_t bytes);

}  // namespace stbench::reports
