/// Lists of rows on their way between the ranks of a group. For the library's own files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "speedtorch/sharded/rank_group.h"

namespace speedtorch {

/// A rank's place in a list of all ranks.
inline std::size_t at_rank(int rank) { return static_cast<std::size_t>(rank); }

/// Sends a list of items to each other rank and receives one from it, in chunks. While chunks are on their
/// way, the next is filled and the last is placed. The memory of a few chunks is kept from one exchange to
/// the next, because new memory costs a page fault per 4 KiB.
class RowExchange {
 public:
  /// @param chunk_bytes of a chunk from one rank to another at most, or one item
  RowExchange(RankGroup group, std::int64_t chunk_bytes)
      : group_(std::move(group)), chunk_bytes_(chunk_bytes) {}

  /// Fills or places some rows of a chunk: their rank, their numbers in its list, and their first byte.
  using Piece = std::function<void(int rank, std::int64_t begin, std::int64_t count, std::byte* data)>;
  /// One of `parts` equal parts of work that needs no other rank.
  using Share = std::function<void(std::int64_t part, std::int64_t parts)>;

  /// Starts to receive the first chunks. A rank's own list must be empty.
  /// @param to, from the number of items for and from each rank
  /// @param places where the list of each rank goes: bytes, which are kept until the next exchange, because
  /// messages may still arrive after an error. Empty if a `place` takes the chunks
  void expect(std::int64_t item_bytes, std::vector<std::int64_t> to, std::vector<std::int64_t> from,
              std::vector<at::Tensor> places = {});

  /// Moves what was expected. `meanwhile` is called for each part in turn. `place` may be null if there are
  /// places. @throws GroupError
  void move(const Piece& fill, const Piece& place, const Share& meanwhile);

  /// The most chunks to or from one rank in the last exchange.
  [[nodiscard]] std::int64_t chunks() const { return chunks_; }

 private:
  /// A chunk of one rank's list on its way.
  struct Chunk {
    at::Tensor bytes;
    RankGroup::Transfer transfer;
  };

  [[nodiscard]] std::int64_t items(std::int64_t listed, std::int64_t chunk) const;
  void make_room(std::int64_t most);
  void receive(int rank, std::int64_t chunk);
  void send(int rank, std::int64_t chunk, const Piece& fill);
  void take(int rank, std::int64_t chunk, const Piece& place);
  [[nodiscard]] at::Tensor room(int rank, std::int64_t slot, std::int64_t bytes) const;

  RankGroup group_;
  std::int64_t chunk_bytes_;
  std::int64_t item_bytes_ = 1, step_ = 1, chunks_ = 0;
  std::int64_t slot_bytes_ = 0;  // of `buffer_`
  std::vector<std::int64_t> to_, from_;
  std::vector<at::Tensor> places_;
  at::Tensor buffer_;
  std::vector<Chunk> sent_, received_;  // of each rank, its slots
};

}  // namespace speedtorch
