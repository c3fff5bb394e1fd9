/// The fuzz target of the safetensors reader: any bytes give the tensors of a file or a SafetensorsError.
#include "speedtorch/files/safetensors.h"

#include <cstdint>
#include <span>

#include "tests/fuzz.h"

namespace speedtorch {
namespace {

using stbench::test::require;

/// The tensors fill the file behind its header, without holes and overlaps.
void check_places(const Safetensors& found, std::int64_t header, std::int64_t file_bytes) {
  std::int64_t sum = 0;
  for (const auto& [name, tensor] : found.tensors) {
    require(tensor.bytes >= 0 && tensor.offset >= header, "a tensor lies behind the header");
    require(tensor.offset <= file_bytes - tensor.bytes, "a tensor lies in the file");
    require(tensor.shape.size() <= kMostSafetensorsDimensions, "there are at most 64 dimensions");
    sum += tensor.bytes;
    for (const auto& [other_name, other] : found.tensors)
      require(&other == &tensor || other.bytes == 0 || tensor.bytes == 0 ||
                  other.offset + other.bytes <= tensor.offset || tensor.offset + tensor.bytes <= other.offset,
              "no two tensors overlap");
    require(&tensor_named(found, name) == &tensor, "each tensor is found by its name");
  }
  require(header + sum == file_bytes, "the tensors fill the file to its end");
}

void check_file(std::span<const std::byte> file, std::int64_t file_bytes) {
  const auto header = safetensors_header_bytes(file, file_bytes);
  require(header <= file_bytes && header <= 8 + kLongestSafetensorsHeader, "the header is in the file");
  check_places(parse_safetensors(file, file_bytes), header, file_bytes);
}

template <class Check>
void refusing(Check check) {
  try {
    check();
  } catch (const SafetensorsError& error) {
    stbench::test::check_message(error.what(), 1);
  }
}

}  // namespace
}  // namespace speedtorch

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace speedtorch;
  const auto file = std::as_bytes(std::span(data, size));
  const auto bytes = static_cast<std::int64_t>(size);
  refusing([&] { check_file(file, bytes); });
  // As if the data that the header promises were there, so that the code behind the check of the size runs.
  for (const std::int64_t more : {1, 4, 16, 1 << 20}) refusing([&] { check_file(file, bytes + more); });
  refusing([&] { tensor_named(parse_safetensors(file, bytes), std::nullopt); });
  return 0;
}
