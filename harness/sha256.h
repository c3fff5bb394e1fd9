/// SHA-256 (FIPS 180-4), so that a trace is named by what is in it and `sha256sum` gives the same.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace stbench::harness {

/// The digest as 64 lower-case hexadecimal digits.
std::string sha256(std::span<const std::byte> data);

}  // namespace stbench::harness
