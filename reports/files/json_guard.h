/// JSON text to a value, with the guards that the library lacks.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace stbench::reports {

/// @param name of the file, for messages.
/// @throws ReportError, with line and column, for text that is not JSON, nests deeper than 32, has an object
///   with the same key twice or with more than 10,000 keys, more than 8 million values, or a number that no
///   double holds.
nlohmann::ordered_json parse_json(std::string_view text, std::string_view name);

}  // namespace stbench::reports
