#include "speedtorch/kernels/rows/index_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace speedtorch::kernels {
namespace {

constexpr double kLine = 128;
constexpr double kSector = 32;    // the least that a kernel fetches
constexpr double kOverhead = 20;  // of a read's completion, PCIe 3 to 5

double whole_sectors(double bytes) { return std::ceil(bytes / kSector) * kSector; }

/// Seconds of `requests` requests of `bytes` bytes, at most a line.
double link_seconds(double requests, double bytes, const OrderCosts& costs) {
  const double raw_rate = costs.link_rate * (kLine + kOverhead) / kLine;
  return requests * (bytes + kOverhead) / raw_rate;
}

/// Rows of a line and more: one request per line, in either order.
double long_rows(double rows, double row_bytes, const OrderCosts& costs) {
  return link_seconds(rows * std::ceil(row_bytes / kLine), kLine, costs);
}

/// Rows below a line in the table's order: one request for each line that holds one.
double short_rows_sorted(const OrderQuestion& gather, double distinct, const OrderCosts& costs) {
  const auto table_bytes = static_cast<double>(gather.rows) * static_cast<double>(gather.row_bytes);
  const double lines = std::max(1.0, table_bytes / kLine);
  const double touched = lines * (1 - std::exp(-distinct / lines));
  const double bytes =
      std::min(kLine, whole_sectors(static_cast<double>(gather.row_bytes)) * distinct / touched);
  return link_seconds(touched, bytes, costs);
}

}  // namespace

double order_seconds(const OrderQuestion& gather, IndexOrder order, const OrderCosts& costs) {
  const auto count = static_cast<double>(gather.count);
  const auto row_bytes = static_cast<double>(gather.row_bytes);
  const double distinct = count * std::clamp(gather.unique_share, 0.0, 1.0);
  const bool lines = row_bytes >= kLine;
  if (order == IndexOrder::as_given)
    return lines ? long_rows(count, row_bytes, costs) : link_seconds(count, whole_sectors(row_bytes), costs);
  const double sorting = costs.sort_start + costs.sort_index * count;
  const double rows = order == IndexOrder::unique ? distinct : count;
  const double moving = lines ? long_rows(rows, row_bytes, costs) / costs.sorted_gain
                              : short_rows_sorted(gather, distinct, costs);
  const double copying = order == IndexOrder::unique ? 2 * count * row_bytes / costs.device_rate : 0;
  return sorting + moving + copying;
}

IndexOrder best_order(const OrderQuestion& gather, const OrderCosts& costs) {
  if (!gather.over_link || gather.count == 0 || gather.count > std::numeric_limits<std::int32_t>::max())
    return IndexOrder::as_given;
  return std::min({IndexOrder::as_given, IndexOrder::sorted, IndexOrder::unique},
                  [&](IndexOrder a, IndexOrder b) {
                    return order_seconds(gather, a, costs) < order_seconds(gather, b, costs);
                  });
}

}  // namespace speedtorch::kernels
