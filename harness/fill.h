/// The content of tables, and the check that a row arrived. The content is an endless stream of bytes; each
/// 8-byte word is a hash of the seed and its position. Row r of width w is the stream's bytes [r·w, r·w + w),
/// so one filled block serves each width and dtype. A swapped row, a shifted column, a stale or an incomplete
/// copy differs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stbench::harness {

/// The stream's word at bytes [8·position, 8·position + 8), little-endian.
std::uint64_t word(std::uint64_t seed, std::uint64_t position);

/// Writes the stream's bytes [begin_byte, end_byte) to `data`, aligned or not. Ranges may be cut anywhere, so
/// threads can share a block.
/// @param data where the stream's byte begin_byte goes
void fill(std::byte* data, std::int64_t begin_byte, std::int64_t end_byte, std::uint64_t seed);

/// Compares `data` with the stream's bytes [stream_begin, stream_begin + bytes).
/// @returns the offset in `data` of the first byte that differs, or -1 if all are equal
std::int64_t first_mismatch(const std::byte* data, std::int64_t stream_begin, std::int64_t bytes,
                            std::uint64_t seed);

}  // namespace stbench::harness
