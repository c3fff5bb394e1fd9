#include "benchmarks/transfer/fixture.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace stbench {
namespace {

/// The rows of a batch for each row that is changed before a sample, and the most that are changed. A changed
/// row is in the caches, and the sample should find few there.
constexpr std::int64_t rows_a_change = 256;
constexpr std::int64_t most_changes = 16;

/// The destination changes after so many samples on the average. If each sample draws its own, it finds less
/// of it in the caches: outputs of 256 KiB then took 1.15 times as long, and other methods less time.
constexpr std::int64_t samples_a_destination = 16;

/// Rows and bytes that are compared after a sample, beside the changed rows: 0.1 ms.
constexpr std::int64_t most_spots = 240;
constexpr std::int64_t bytes_of_spots = std::int64_t{256} << 10;

/// The purpose of these random numbers (harness/random.h).
constexpr std::uint64_t spots = 0x5b07;

/// Adds `count` positions from `first` to before `end`.
void draw(std::vector<std::int64_t>& positions, std::int64_t count, std::int64_t first, std::int64_t end,
          harness::Random& random) {
  for (std::int64_t k = 0; k < count; ++k) positions.push_back(first + random.below(end - first));
}

}  // namespace

TransferFixture::TransferFixture(const TransferCase& cell, std::shared_ptr<speedtorch::Memory> memory,
                                 std::shared_ptr<const IndexSets> indices, Content content)
    : operands(cell, std::move(memory), *indices),
      verifier(operands, cell.shape(), indices, content),
      random_(harness::key_of(content.seed(), spots, 0)) {
  const auto count = cell.bidirectional() ? 2 : cell.callers;
  const auto batch = operands.count();
  for (std::int64_t k = 0; count > 1 && k < count; ++k) {
    const auto first = k * batch / count;
    slices.push_back(std::make_unique<Operands>(operands, first, (k + 1) * batch / count - first));
  }
}

TransferFixture::TransferFixture(const TransferCase& cell, std::shared_ptr<speedtorch::Memory> memory,
                                 std::shared_ptr<IndexSets> own_indices, Content content)
    : TransferFixture(cell, std::move(memory), std::shared_ptr<const IndexSets>(own_indices), content) {
  own_indices_ = std::move(own_indices);
}

void TransferFixture::set_index(int set, std::vector<std::int64_t> rows) {
  operands.set_index(set, rows);
  own_indices_->at(static_cast<std::size_t>(set)) = std::move(rows);
}

void TransferFixture::forget_results() {
  operands.forget_result();
  for (auto& slice : slices) slice->forget_result();
}

void TransferFixture::poison_model() {
  forget_results();
  poison(operands.model());
}

void TransferFixture::prepare_values(Pattern pattern, int set, std::uint64_t generation) {
  forget_results();
  verifier.prepare_values(pattern, set, generation);
}

void TransferFixture::use_destination(int number) {
  operands.use_destination(number);
  for (auto& slice : slices) slice->use_destination(number);
}

void TransferFixture::vary(const TransferCase& one, Pattern pattern, int set, bool first_destination) {
  if (operands.destinations() > 1) {
    if (--until_next_destination_ <= 0) {
      destination_ = (destination_ + 1) % operands.destinations();
      until_next_destination_ = 1 + random_.below(2 * samples_a_destination - 1);
    }
    use_destination(first_destination ? 0 : destination_);
  }
  varied_.clear();
  const auto changes = std::clamp<std::int64_t>(operands.count() / rows_a_change, 1, most_changes);
  const auto first_changed = one.bidirectional() ? slices.back()->first() : 0;
  draw(varied_, changes, first_changed, operands.count(), random_);
  if (one.writes()) {
    verifier.poison_positions(pattern, set, varied_);
  } else if (one.placement != speedtorch::Placement::mapped) {
    // A changed page of a file would be written to the disk while the sample runs.
    verifier.change_rows(pattern, set, varied_);
  }
  if (one.bidirectional()) poison_results(*slices.front(), changes);
}

void TransferFixture::poison_results(Operands& slice, std::int64_t count) {
  std::vector<std::int64_t> positions;
  draw(positions, count, 0, slice.count(), random_);
  for (const auto position : positions) {
    auto row = slice.model().narrow(0, position, 1);
    poison(row);
    varied_.push_back(slice.first() + position);
  }
}

harness::Check TransferFixture::check_spots(const TransferCase& one, Pattern pattern, int set,
                                            std::uint64_t generation, Equality equality) {
  auto positions = varied_;
  const auto row_bytes = one.shape().row_bytes();
  draw(positions, std::clamp<std::int64_t>(bytes_of_spots / row_bytes, 1, most_spots), 0, operands.count(),
       random_);
  harness::Check check;
  if (one.reads()) check = check_model_at(one, pattern, set, generation, equality, positions);
  if (one.writes()) merge(check, verifier.check_named_at(pattern, set, generation, positions));
  return check;
}

harness::Check TransferFixture::check_model_at(const TransferCase& one, Pattern pattern, int set,
                                               std::uint64_t generation, Equality equality,
                                               const std::vector<std::int64_t>& positions) {
  if (slices.empty()) return verifier.check_model_at(operands, pattern, set, generation, equality, positions);
  harness::Check check;
  const std::span all(slices);
  for (const auto& slice : one.bidirectional() ? all.first(1) : all) {
    std::vector<std::int64_t> own;
    for (const auto position : positions) {
      const auto in_slice = position - slice->first();
      if (in_slice >= 0 && in_slice < slice->count()) own.push_back(in_slice);
    }
    if (!own.empty()) merge(check, verifier.check_model_at(*slice, pattern, set, generation, equality, own));
  }
  return check;
}

harness::Check TransferFixture::check_model(Pattern pattern, int set, std::uint64_t generation,
                                            Equality equality) const {
  if (slices.empty()) return verifier.check_model(operands, pattern, set, generation, equality);
  harness::Check check;
  for (std::size_t k = 0; k < slices.size(); ++k) {
    auto found = verifier.check_model(*slices[k], pattern, set, generation, equality);
    if (!found.first.empty()) found.first = "caller " + std::to_string(k) + ": " + found.first;
    merge(check, found);
  }
  return check;
}

}  // namespace stbench
