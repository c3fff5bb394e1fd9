/// One case of the transfer suite, as its planner, methods and fixtures see it. Strings are for the command
/// line and for reports (case_identity.h).
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

#include "benchmarks/tables/row_shape.h"
#include "reports/record.h"
#include "speedtorch/placement.h"

namespace stbench {

struct Method;

/// Table rows into the model tensor, back, one after the other, half of the batch each way at a time, or into
/// the model tensor and then read there.
enum class Direction { to, from, round_trip, both, consume };
/// The state of the caches before each sample.
enum class Cache { warm, cold };

struct TransferCase {
  Direction direction = Direction::to;
  speedtorch::Placement placement = speedtorch::Placement::libtorch;  ///< of the table
  const Method* method = nullptr;                                     ///< null in a cell, which has several
  c10::Device device = c10::kCPU;                                     ///< of the model tensor
  std::optional<c10::ScalarType> dtype = c10::kFloat;                 ///< nothing: rows of `dim` bytes
  c10::ScalarType index_dtype = c10::kLong;
  std::string distribution;  ///< its name in reports
  std::int64_t rows = 0, dim = 0;
  std::int64_t batch = 0;  ///< rows moved by each caller
  std::int64_t cores = 0, callers = 1;
  std::int64_t cache_bytes = 0;  ///< of a method that keeps rows in memory of its own; 0: it has none
  Cache cache = Cache::warm;
  std::string isa = "best";  ///< of the host's kernels

  bool operator==(const TransferCase&) const = default;

  [[nodiscard]] bool on_gpu() const { return !device.is_cpu(); }
  [[nodiscard]] bool is_cold() const { return cache == Cache::cold; }
  /// Rows of the table are read, or written.
  [[nodiscard]] bool reads() const { return direction != Direction::from; }
  [[nodiscard]] bool writes() const { return direction != Direction::to && !consumes(); }
  [[nodiscard]] bool bidirectional() const { return direction == Direction::both; }
  [[nodiscard]] bool consumes() const { return direction == Direction::consume; }
  [[nodiscard]] RowShape shape() const { return row_shape(dtype, rows, dim); }
  /// Rows that all callers move together; the largest number if they do not fit 63 bits.
  [[nodiscard]] std::int64_t rows_moved() const;
  /// The cell of the case: what its methods are compared in.
  [[nodiscard]] TransferCase cell() const;
};

/// An order, for sets of cases.
bool operator<(const TransferCase& a, const TransferCase& b);

/// True if one set of kernels sees both sides: host memories with a CPU model, pinned and device memory with
/// a GPU's.
bool rows_move_on_the_model_device(const TransferCase& one);
/// The same with a GPU's model.
bool rows_move_on_a_gpu(const TransferCase& one);
/// A GPU reads and writes rows of pinned memory, over the link.
bool rows_cross_the_link(const TransferCase& one);

/// True if operations of the case's direction exist: bidirectional ones are over the link to a GPU only, and
/// the pass of `consume` reads host memory.
bool direction_supported(const TransferCase& one);
/// Why the direction cannot be measured with such batches, with the cure; empty if it can.
std::string direction_skip_reason(const TransferCase& one);

}  // namespace stbench
