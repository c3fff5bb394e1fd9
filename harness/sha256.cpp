#include "harness/sha256.h"

#include <sha2.h>

#include <cstdint>

namespace stbench::harness {

std::string sha256(std::span<const std::byte> data) {
  std::string digest(SHA256_DIGEST_STRING_LENGTH, '\0');
  SHA256Data(reinterpret_cast<const std::uint8_t*>(data.data()), data.size(), digest.data());
  digest.pop_back();  // the closing zero
  return digest;
}

}  // namespace stbench::harness
