/// Text for a terminal: colour when asked, widths in columns, numbers as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stbench::reports {

/// True if escape codes may be written. Colour never changes the layout.
enum class Style { plain, colour };

enum class Paint { none, bold, dim, good, bad, doubtful };

/// Lines are at most so wide.
inline constexpr std::size_t kScreenWidth = 100;

std::string painted(std::string_view text, Paint paint, Style style);

/// Columns that UTF-8 text takes: its code points, one each.
std::size_t display_width(std::string_view text);
/// At most `width` columns; a text that is cut ends in three dots.
std::string shortened(std::string_view text, std::size_t width);
/// The text on one line: control characters become blanks, bytes that are not UTF-8 U+FFFD.
std::string one_line(std::string_view text);
/// Without the blanks at its end.
std::string trimmed(std::string text);
/// Lines of at most `width` columns, broken at blanks where that is possible, each but the first indented.
std::vector<std::string> wrapped(std::string_view text, std::size_t width, std::size_t indent);
/// The text as painted lines of the screen, each but the first indented, each with its end.
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
