#include "reports/utf8.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stbench::reports {

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string valid_utf8(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return std::string(text);
  return nlohmann::json::parse(json_text(text)).get<std::string>();
}

}  // namespace stbench::reports
