/// The file of `--table`: a real table, open for reading and never written.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "benchmarks/suite/options.h"
#include "benchmarks/tables/row_shape.h"
#include "speedtorch/files/array_file.h"
#include "speedtorch/memory/memory.h"

namespace stbench {

class TableFile {
 public:
  /// @param path FILE.npy, FILE.safetensors:TENSOR, or with `raw` a file of such rows and nothing else
  /// @throws UsageError if it cannot be opened, or has no rows
  explicit TableFile(const std::string& path, const std::optional<RowShape>& raw = {});

  /// Leaves out all but the first rows. @throws UsageError if it has not so many
  void keep_first(std::int64_t rows);

  [[nodiscard]] const std::string& name() const { return array_.name; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t row_elements() const { return bytes() / rows_ / element_bytes(); }
  [[nodiscard]] std::int64_t bytes() const { return array_.bytes; }
  [[nodiscard]] at::ScalarType dtype() const { return array_.dtype; }
  /// The dtype of the cases on this table: nothing for one that the suites lack, such as float8, whose rows
  /// they move as bytes.
  [[nodiscard]] std::optional<at::ScalarType> case_dtype() const;
  /// The `dim` of the cases: elements, or bytes if they have no dtype.
  [[nodiscard]] std::int64_t case_dim() const;

  /// Reads bytes [begin, end) of the rows with pread. Thread-safe.
  /// @throws speedtorch::FileError if the file was shrunk or the disk fails
  void read(std::byte* to, std::int64_t begin, std::int64_t end) const;
  /// Compares `data` with the rows' bytes from `begin` on, which it reads.
  /// @returns the offset in `data` of the first byte that differs, or -1 if all are equal
  [[nodiscard]] std::int64_t first_mismatch(const std::byte* data, std::int64_t begin,
                                            std::int64_t bytes) const;

  /// True if the file's rows are aligned for elements of this type.
  [[nodiscard]] bool is_aligned_for(at::ScalarType dtype) const {
    return array_.data_offset % static_cast<std::int64_t>(c10::elementSize(dtype)) == 0;
  }
  [[nodiscard]] bool is_raw() const { return raw_; }
  /// The rows in the file itself, mapped read-only.
  [[nodiscard]] std::shared_ptr<speedtorch::Memory> map() const;
  /// SHA-256 of the file's size and of evenly spread pages of the rows: tells tables apart in a fraction of a
  /// second.
  [[nodiscard]] std::string hash() const;
  /// The table's part of a report.
  [[nodiscard]] nlohmann::ordered_json environment() const;

 private:
  [[nodiscard]] std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(c10::elementSize(array_.dtype));
  }
  speedtorch::ArrayFile array_;
  std::int64_t rows_ = 0;
  bool raw_;
};

/// The table that `--table` names; null without one.
/// @throws UsageError as the constructor does, and if an option that the file decides is given, too
std::shared_ptr<const TableFile> table_of(const Options& options);

/// The options with the shape of the table's cases. With --case, whose shape must be the table's, they stay
/// as they are.
/// @throws UsageError
Options with_shape_of(const TableFile& table, Options options);

/// @throws UsageError if a case that --case names has another shape than the table
void require_shape_of(const TableFile& table, const reports::Identity& id);

}  // namespace stbench
