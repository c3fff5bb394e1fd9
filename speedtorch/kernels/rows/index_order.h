/// When it pays to sort, or to deduplicate, the index of a gather over a link. Pure functions, tested on the
/// host; C++17, and no CUDA header.
#pragma once

#include <cstdint>

namespace speedtorch::kernels {

/// `as_given`; `sorted`: rows are read in the table's order, so that neighbours share requests and address
/// translations; `unique`: besides, each row crosses the link once and is copied in device memory.
enum class IndexOrder { as_given, sorted, unique };

/// A gather, as far as its order matters.
struct OrderQuestion {
  std::int64_t rows;          ///< of the table
  std::int64_t row_bytes;     ///< of a row
  std::int64_t count;         ///< of indices
  bool over_link;             ///< the table lies in host memory
  double unique_share = 1.0;  ///< of the indices, those that name a row for the first time; 1 if not known
};

/// Costs of the operations. The defaults follow from published figures; not yet measured on a GPU.
struct OrderCosts {
  /// Payload of whole-line requests by kernels, bytes a second: 35.0-38 on a PCIe 5 H100 and H800.
  double link_rate = 35e9;
  /// Copy in device memory, bytes a second, read and write together: 4.3e12 on an H200.
  double device_rate = 4.3e12;
  /// DGL's gather of 100k sorted indices over PCIe 4 took 0.15 ms (1024 B) to 0.8 ms (256 B) longer than its
  /// rate at a million indices says. The smaller is taken as the start, the rest as the cost of an index.
  double sort_start = 0.15e-3;
  double sort_index = 6.5e-9;
  /// Speed of rows of a line and more in the table's order, over random order: 1.3 on DGL's features.
  double sorted_gain = 1.3;
};

/// Seconds that the gather takes in an order, by a model: a request costs its bytes and 20 of overhead; rows
/// below 128 bytes share the lines that they lie in when they are sorted (up to 4 times on tiny rows by DGL).
double order_seconds(const OrderQuestion& gather, IndexOrder order, const OrderCosts& costs = {});

/// The order that takes least by `order_seconds`; `as_given` in device memory, where nothing is saved, and
/// if there are too many indices to sort (2^31).
IndexOrder best_order(const OrderQuestion& gather, const OrderCosts& costs = {});

}  // namespace speedtorch::kernels
