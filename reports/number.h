/// Numbers as text and back: the shortest digits that give the same bits, whatever the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stbench::reports {

std::string number_text(std::int64_t value);
/// Always with a point or an exponent, so that it is not taken for an integer; empty if the value is not
/// finite.
std::string number_text(double value);

/// True for decimal digits only, and at least one of them.
bool is_digits(std::string_view text);

/// Nothing if the whole text is not an integer, or not one of 64 bits.
std::optional<std::int64_t> integer_from(std::string_view text);
/// Nothing if the whole text is not a number, or not a finite one.
std::optional<double> real_from(std::string_view text);

}  // namespace stbench::reports
