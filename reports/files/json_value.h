/// Values in JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "reports/record.h"
#include "reports/utf8.h"

namespace stbench::reports {

/// Text is made valid UTF-8; no value is `null`.
inline nlohmann::ordered_json json_of(const Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return valid_utf8(*text);
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* const real = std::get_if<double>(&value)) return *real;
  return nullptr;
}

/// Returns the value that a JSON pointer such as "/cpu/design" names, or null.
inline const nlohmann::ordered_json* json_at(const nlohmann::ordered_json& json, const char* pointer) {
  const nlohmann::ordered_json::json_pointer path(pointer);
  return json.contains(path) ? &json.at(path) : nullptr;
}

}  // namespace stbench::reports
