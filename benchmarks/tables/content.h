/// The expected values of a table by position: the fill of a seed (harness/fill.h), or the rows of a file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "benchmarks/tables/table_file.h"

namespace stbench {

class Content {
 public:
  Content(std::uint64_t seed) : seed_(seed) {}  // NOLINT(google-explicit-constructor): a seed is a content
  /// @param file null for the fill of the seed; outlives the content
  Content(std::uint64_t seed, const TableFile* file) : seed_(seed), file_(file) {}

  /// Writes bytes [begin, end) of the content to `data`. Thread-safe.
  /// @throws speedtorch::FileError
  void write(std::byte* data, std::int64_t begin, std::int64_t end) const;
  /// Compares `data` with the content's bytes from `begin` on.
  /// @returns the offset in `data` of the first byte that differs, or -1 if all are equal
  [[nodiscard]] std::int64_t first_mismatch(const std::byte* data, std::int64_t begin,
                                            std::int64_t bytes) const;
  /// The seed of random numbers that belong to the table, also if a file has its rows.
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] const TableFile* file() const { return file_; }

 private:
  std::uint64_t seed_;
  const TableFile* file_ = nullptr;
};

}  // namespace stbench
