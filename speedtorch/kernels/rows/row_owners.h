/// Maps each row of a table to its memory node, on a machine of several sockets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace speedtorch::kernels {

/// The rows up to `end`, from where the ones before ended, lie on `node`.
struct OwnedRows {
  std::int64_t end;
  int node;
};

/// A hint: who is told wrong is slower, never wrong. Nodes count from 0.
class RowOwners {
 public:
  /// Contiguous ranges of rows, at least one, `end` ascending; a node may have none or several. Rows past the
  /// last end are the last range's.
  static RowOwners ranges(int nodes, std::vector<OwnedRows> ranges) {
    RowOwners owners(nodes);
    owners.ranges_ = std::move(ranges);
    return owners;
  }

  /// Pages dealt out to the nodes in turn: `first_node` has the one that row 0 starts in, `first_byte` into
  /// it. A row that crosses into a further page is its first byte's.
  static RowOwners interleaved(int nodes, int first_node, std::int64_t first_byte, std::int64_t stride_bytes,
                               std::int64_t page_bytes) {
    RowOwners owners(nodes);
    owners.first_node_ = first_node;
    owners.first_byte_ = first_byte;
    owners.stride_bytes_ = stride_bytes;
    owners.page_bytes_ = page_bytes;
    return owners;
  }

  int nodes() const { return nodes_; }

  /// The node of a row of the table, in [0, nodes()).
  int owner(std::int64_t row) const {
    if (page_bytes_ > 0) {
      const std::int64_t page = (first_byte_ + row * stride_bytes_) / page_bytes_;
      return static_cast<int>((first_node_ + page) % nodes_);
    }
    const auto before = [](std::int64_t at, const OwnedRows& range) { return at < range.end; };
    return std::upper_bound(ranges_.begin(), ranges_.end() - 1, row, before)->node;
  }

 private:
  explicit RowOwners(int nodes) : nodes_(nodes) {}

  int nodes_;
  std::vector<OwnedRows> ranges_;
  int first_node_ = 0;
  std::int64_t first_byte_ = 0;
  std::int64_t stride_bytes_ = 0;
  std::int64_t page_bytes_ = 0;  ///< 0 for ranges
};

}  // namespace speedtorch::kernels
