/// Reads many safetensors files for safetensors_oracle_test.py.
///
/// usage: safetensors_program PACK
///
/// PACK holds the files one behind the other, each behind its length (8 bytes, little-endian). Prints for
/// each file `refused MESSAGE`, or `tensors COUNT` and a line per tensor: its name in hexadecimal digits and
/// a dot, dtype, shape with commas or `-`, offset, bytes.
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "speedtorch/files/safetensors.h"

namespace {

using namespace speedtorch;

void print_name(const std::string& name) {
  constexpr const char* digits = "0123456789abcdef";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    std::cout << digits[byte >> 4] << digits[byte & 15];
  }
  std::cout << ". ";
}

void print_file(std::span<const std::byte> file) {
  try {
    const auto found = parse_safetensors(file, std::ssize(file));
    std::cout << "tensors " << found.tensors.size() << "\n";
    for (const auto& [name, tensor] : found.tensors) {
      print_name(name);
      std::cout << tensor.dtype << " " << (tensor.shape.empty() ? "-" : "");
      for (std::size_t k = 0; k < tensor.shape.size(); ++k)
        std::cout << (k == 0 ? "" : ",") << tensor.shape[k];
      std::cout << " " << tensor.offset << " " << tensor.bytes << "\n";
    }
  } catch (const SafetensorsError& error) {
    std::cout << "refused " << error.what() << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream pack(argv[1], std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(pack), {}};
  auto rest = std::as_bytes(std::span(all));
  while (rest.size() >= 8) {
    std::uint64_t length = 0;
    std::memcpy(&length, rest.data(), 8);
    // Exactly as long as the file: a read behind its end is then one that the address sanitizer sees.
    const std::vector<std::byte> file(rest.begin() + 8,
                                      rest.begin() + 8 + static_cast<std::ptrdiff_t>(length));
    print_file(file);
    rest = rest.subspan(8 + length);
  }
  return rest.empty() ? 0 : 1;
}
