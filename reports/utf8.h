/// Texts of unknown origin (file names, device names, messages of the system) made safe to write.
#pragma once

#include <string>
#include <string_view>

namespace stbench::reports {

/// The text with every byte sequence that is not UTF-8 replaced by U+FFFD, as the JSON writer would.
std::string valid_utf8(std::string_view text);

/// The text as a JSON string, quotes included; bytes that are not UTF-8 are replaced.
std::string json_text(std::string_view text);

}  // namespace stbench::reports
