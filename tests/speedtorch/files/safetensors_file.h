/// Files of the format safetensors, written by hand.
#pragma once

#include <string>
#include <string_view>

namespace speedtorch::test {

/// The length, the header and `data` behind it.
inline std::string safetensors_file(std::string_view header, std::string_view data = {}) {
  std::string file;
  for (std::size_t byte = 0; byte < 8; ++byte) file += static_cast<char>(header.size() >> (8 * byte) & 0xFF);
  return file.append(header).append(data);
}

}  // namespace speedtorch::test
