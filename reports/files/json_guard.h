/// JSON text to a value, with the guards that the library lacks.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace stbench::reports {

/// A place in a text, both from 1.
struct TextPlace {
  std::size_t line = 1, column = 1;
};

/// @param name of the file, for messages.
/// @throws ReportError, with line and column, for text that is not JSON, nests deeper than 32, has an object
///   with the same key twice or with more than 10,000 keys, more than 8 million values, or a number that no
///   double holds.
nlohmann::ordered_json parse_json(std::string_view text, std::string_view name);

/// Where in the text a value of the document that was parsed from it ends (an object or array: begins).
TextPlace place_of(const nlohmann::ordered_json& value, const nlohmann::ordered_json& document,
                   std::string_view text);

}  // namespace stbench::reports
