#include "speedtorch/sharded/row_exchange.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "speedtorch/sharded/message_bytes.h"

namespace speedtorch {
namespace {

/// A chunk is placed once this many later ones have been sent.
constexpr std::int64_t kLag = 3;
/// Chunks of a rank that may be on their way: to it, and from it. From the third chunk on a receive usually
/// begins after the other rank's send, so Gloo's own thread writes the chunk to the socket. Where the receive
/// came first, the sending thread writes it, and Gloo's polls the socket in vain meanwhile. With a lag of 2
/// instead of 3 a gather of 4 KiB rows took 1.2 times as long, and one of 512 B 1.08
/// (results/amd-epyc-2-cores-2026-11-30/sharded/changes.txt).
constexpr std::int64_t kSent = kLag + 1, kReceived = 2, kSlots = kSent + kReceived;

/// The chunks of all other ranks share the memory of this many chunks, but none is smaller than `kSmallest`.
constexpr std::int64_t kRanksAtFullSize = 16, kSmallest = std::int64_t{64} << 10;

std::size_t slot_of(int rank, std::int64_t chunk, std::int64_t slots) {
  return static_cast<std::size_t>(rank * slots + chunk % slots);
}

}  // namespace

std::int64_t RowExchange::items(std::int64_t listed, std::int64_t chunk) const {
  return std::clamp<std::int64_t>(listed - chunk * step_, 0, step_);
}

void RowExchange::make_room(std::int64_t most) {
  slot_bytes_ = std::min(step_, most) * item_bytes_;
  if (slot_bytes_ > kMessagePage)  // then each chunk begins at a page, as message_bytes()
    slot_bytes_ = (slot_bytes_ + kMessagePage - 1) / kMessagePage * kMessagePage;
  const auto bytes = group_.size() * kSlots * slot_bytes_;
  if (!buffer_.defined() || buffer_.numel() < bytes) {
    buffer_.reset();  // before there is a larger one
    buffer_ = message_bytes(bytes);
  }
  sent_.resize(at_rank(group_.size()) * kSent);
  received_.resize(at_rank(group_.size()) * kReceived);
}

at::Tensor RowExchange::room(int rank, std::int64_t slot, std::int64_t bytes) const {
  return buffer_.narrow(0, (rank * kSlots + slot) * slot_bytes_, bytes);
}

void RowExchange::expect(std::int64_t item_bytes, std::vector<std::int64_t> to,
                         std::vector<std::int64_t> from, std::vector<at::Tensor> places) {
  item_bytes_ = std::max<std::int64_t>(1, item_bytes);
  to_ = std::move(to), from_ = std::move(from), places_ = std::move(places);
  std::int64_t most = 0;
  for (auto* lists : {&to_, &from_})
    for (auto& count : *lists) {
      if (item_bytes == 0) count = 0;  // nothing to move
      most = std::max(most, count);
    }
  const auto others = std::max(1, group_.size() - 1);
  const auto shared = std::max(kSmallest, chunk_bytes_ / others * kRanksAtFullSize);
  step_ = std::max<std::int64_t>(1, std::min(chunk_bytes_, shared) / item_bytes_);  // the same on each rank
  chunks_ = (most + step_ - 1) / step_;
  make_room(most);
  for (int r = 0; r < group_.size(); ++r)
    for (std::int64_t chunk = 0; chunk < kReceived; ++chunk) receive(r, chunk);
}

void RowExchange::receive(int rank, std::int64_t chunk) {
  const auto bytes = items(from_[at_rank(rank)], chunk) * item_bytes_;
  if (bytes == 0) return;
  auto& into = received_[slot_of(rank, chunk, kReceived)];
  into.bytes = places_.empty() ? room(rank, kSent + chunk % kReceived, bytes)
                               : places_[at_rank(rank)].narrow(0, chunk * step_ * item_bytes_, bytes);
  into.transfer = group_.receive(into.bytes, rank);
}

void RowExchange::send(int rank, std::int64_t chunk, const Piece& fill) {
  const auto count = items(to_[at_rank(rank)], chunk);
  if (count == 0) return;
  auto& from = sent_[slot_of(rank, chunk, kSent)];
  if (chunk >= kSent) from.transfer.wait();
  from.bytes = room(rank, chunk % kSent, count * item_bytes_);
  fill(rank, chunk * step_, count, static_cast<std::byte*>(from.bytes.data_ptr()));
  from.transfer = group_.send(from.bytes, rank);
}

void RowExchange::take(int rank, std::int64_t chunk, const Piece& place) {
  const auto count = items(from_[at_rank(rank)], chunk);
  if (count == 0) return;
  auto& into = received_[slot_of(rank, chunk, kReceived)];
  into.transfer.wait();
  if (place) place(rank, chunk * step_, count, static_cast<std::byte*>(into.bytes.data_ptr()));
  receive(rank, chunk + kReceived);
}

void RowExchange::move(const Piece& fill, const Piece& place, const Share& meanwhile) {
  const auto each_other = [&](auto work) {  // no two ranks begin with the same one
    for (int k = 1; k < group_.size(); ++k) work((group_.rank() + k) % group_.size());
  };
  const auto steps = chunks_ + (chunks_ > 0 ? kLag : 1);
  for (std::int64_t k = 0; k < steps; ++k) {
    each_other([&](int rank) { send(rank, k, fill); });
    meanwhile(k, steps);
    if (k >= kLag) each_other([&](int rank) { take(rank, k - kLag, place); });
  }
  each_other([&](int rank) {
    const auto count = (to_[at_rank(rank)] + step_ - 1) / step_;
    for (auto k = std::max<std::int64_t>(0, count - kSent); k < count; ++k)
      sent_[slot_of(rank, k, kSent)].transfer.wait();
  });
  if (places_.empty()) return;
  places_.clear();  // the caller's memory
  for (auto& each : received_) each = {};
}

}  // namespace speedtorch
