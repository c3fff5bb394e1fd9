/// A gather by hand, as LibTorch's users write it: sort the batch by rank, and exchange counts, row numbers
/// and rows. A row that the batch names twice travels twice.
#pragma once

#include <cstdint>
#include <vector>

#include "benchmarks/sharded/method.h"

namespace stbench {

class SortedExchange : public RankGather {
 public:
  using RankGather::RankGather;

  void run(int set) override;
  [[nodiscard]] Crossed crossed() const override;

 protected:
  /// Sends bytes to each rank and receives bytes of each, this rank's own too.
  /// @param send, receive contiguous CPU tensors of kByte
  /// @param to, from bytes of each rank's part
  virtual void exchange(const at::Tensor& send, const std::vector<std::int64_t>& to, at::Tensor receive,
                        const std::vector<std::int64_t>& from) = 0;

 private:
  std::int64_t remote_ = 0;  ///< rows of the last batch that other ranks hold
};

}  // namespace stbench
