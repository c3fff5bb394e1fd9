#include "benchmarks/transfer/table_verifier.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "benchmarks/tables/table_store.h"
#include "harness/fill.h"

namespace stbench {
namespace {

constexpr std::int64_t sampled_rows = 100'000;

/// Generations from here on are of rows that change_rows() changed.
constexpr std::uint64_t first_change = std::uint64_t{1} << 40;

/// The rows at these positions.
std::vector<std::int64_t> rows_at(std::span<const std::int64_t> rows,
                                  std::span<const std::int64_t> positions) {
  std::vector<std::int64_t> found;
  for (const auto position : positions) found.push_back(rows[static_cast<std::size_t>(position)]);
  return found;
}

/// Set s is the s-th piece of so many consecutive rows, from the table's start again at its end.
std::shared_ptr<const IndexSets> contiguous_sets(std::int64_t rows, std::int64_t batch) {
  auto sets = std::make_shared<IndexSets>();
  std::int64_t row = 0;
  for (auto& set : *sets) {
    set.resize(static_cast<std::size_t>(batch));
    for (auto& named : set) named = row, row = row + 1 == rows ? 0 : row + 1;
  }
  return sets;
}

}  // namespace

TableVerifier::TableVerifier(Operands& operands, const RowShape& shape,
                             std::shared_ptr<const IndexSets> indices, Content content)
    : operands_(operands),
      shape_(shape),
      content_(content),
      bytes_(*operands.memory(), shape.rows, shape.row_bytes()),
      indexed_(std::move(indices)),
      contiguous_(contiguous_sets(shape.rows, operands.count())),
      log_(indexed_, contiguous_),
      held_(operands.rotates_values() ? 2 * std::size_t{harness::index_sets} : 1) {}

const std::vector<std::int64_t>& TableVerifier::rows_of(Pattern pattern, int set) const {
  return (pattern == Pattern::indexed ? *indexed_ : *contiguous_)[static_cast<std::size_t>(set)];
}

std::span<const std::int64_t> TableVerifier::rows_of(const Operands& slice, Pattern pattern, int set) const {
  return std::span(rows_of(pattern, set))
      .subspan(static_cast<std::size_t>(slice.first()), static_cast<std::size_t>(slice.count()));
}

Content TableVerifier::content_of(std::uint64_t generation) const {
  return generation == 0 ? content_ : Content(harness::word(content_.seed(), ~generation));
}

void TableVerifier::prepare_values(Pattern pattern, int set, std::uint64_t generation) {
  const auto& rows = rows_of(pattern, set);
  log_.write(pattern, set, generation);
  if (operands_.memory()->placement() == speedtorch::Placement::mapped) bytes_.dirty(rows);
  const Held wanted{generation, set, pattern};
  auto& held = held_[operands_.values_slot(pattern, set)];
  // One buffer for all sets is filled before every sample, so that all samples find it equally warm.
  if (held == wanted && operands_.rotates_values()) return;
  const auto content = [this, generation](std::int64_t) { return content_of(generation); };
  auto& values = operands_.values(pattern, set);
  if (values.is_cpu()) {
    fill_rows(values, rows, content);
  } else {
    fill_rows(operands_.staging(), rows, content);
    values.copy_(operands_.staging());
  }
  held = wanted;
}

void TableVerifier::poison_rows(const Operands& slice, Pattern pattern, int set) {
  bytes_.poison(rows_of(slice, pattern, set));
}

void TableVerifier::poison_positions(Pattern pattern, int set, std::span<const std::int64_t> positions) {
  bytes_.poison(rows_at(rows_of(pattern, set), positions));
}

void TableVerifier::change_rows(Pattern pattern, int set, std::span<const std::int64_t> positions) {
  if (!changed_.empty()) merge(unexplained_, restore_changed());
  changed_ = rows_at(rows_of(pattern, set), positions);
  std::ranges::sort(changed_);
  ++changes_;
  bytes_.write_content(changed_, read_contents(0));
}

/// The contents of what a reader of the table finds.
ContentOf TableVerifier::read_contents(std::uint64_t generation) const {
  const auto usual = content_of(generation), changed = content_of(first_change + changes_);
  if (changed_.empty()) return [usual](std::int64_t) { return usual; };
  return [this, usual, changed](std::int64_t row) {
    return std::ranges::binary_search(changed_, row) ? changed : usual;
  };
}

/// The changed rows get their fill again. @returns what differed from the change, though no operation writes
/// there
harness::Check TableVerifier::restore_changed() {
  auto check = bytes_.check(changed_, read_contents(0), "table");
  bytes_.write_content(changed_, [this](std::int64_t) { return content_; });
  changed_.clear();
  check.rows = 0;  // looked at on the way
  return check;
}

harness::Check TableVerifier::check_model(const Operands& slice, Pattern pattern, int set,
                                          std::uint64_t generation, Equality equality) const {
  const auto& result = slice.result();
  const auto rows = rows_of(slice, pattern, set);
  if (result.scalar_type() != shape_.dtype) {
    return {std::ssize(rows), std::ssize(rows),
            std::string("the result is of dtype ") + c10::toString(result.scalar_type())};
  }
  return check_rows(result, rows, shape_.row_bytes(), read_contents(generation), "model tensor", equality);
}

harness::Check TableVerifier::check_model_at(const Operands& slice, Pattern pattern, int set,
                                             std::uint64_t generation, Equality equality,
                                             std::span<const std::int64_t> positions) const {
  const auto& result = slice.result();
  const auto rows = rows_of(slice, pattern, set);
  const bool as_expected =
      result.scalar_type() == shape_.dtype && result.dim() > 0 && result.size(0) == std::ssize(rows) &&
      static_cast<std::int64_t>(result.nbytes()) == std::ssize(rows) * shape_.row_bytes();
  if (!as_expected) return check_model(slice, pattern, set, generation, equality);  // says what it is instead
  auto* numbers = const_cast<std::int64_t*>(positions.data());  // from_blob's signature; only read
  const auto some = at::from_blob(numbers, {std::ssize(positions)}, at::kLong).to(result.device());
  return check_rows(result.index_select(0, some), rows_at(rows, positions), shape_.row_bytes(),
                    read_contents(generation), "model tensor after a sample", equality);
}

harness::Check TableVerifier::check_named_at(Pattern pattern, int set, std::uint64_t generation,
                                             std::span<const std::int64_t> positions) {
  auto check = bytes_.check(
      rows_at(rows_of(pattern, set), positions),
      [content = content_of(generation)](std::int64_t) { return content; }, "table after a sample");
  if (check.mismatches > 0) repair(pattern, set);
  return check;
}

harness::Check TableVerifier::check_named(Pattern pattern, int set, std::uint64_t generation) {
  auto check = bytes_.check(
      rows_of(pattern, set), [&](std::int64_t) { return content_of(generation); }, "table");
  if (check.mismatches > 0) repair(pattern, set);
  return check;
}

harness::Check TableVerifier::check_others(Pattern pattern, int set) {
  auto check = bytes_.check(others_than(rows_of(pattern, set)), last_written(),
                            "rows of the table that were not named");
  if (check.mismatches > 0) repair_all();
  return check;
}

void TableVerifier::repair(Pattern pattern, int set) {
  bytes_.write_content(rows_of(pattern, set), last_written());
}

void TableVerifier::repair_all() {
  fill_memory(*operands_.memory(), 0, shape_.bytes(), content_);
  if (log_.fresh()) bytes_.write_content(log_.written_rows(), last_written());
}

/// The fill that each row should hold.
ContentOf TableVerifier::last_written() {
  if (!log_.fresh()) return [this](std::int64_t) { return content_; };
  log_.index();
  return [this](std::int64_t row) { return content_of(log_.generation_of(row)); };
}

/// The rows beside these, and evenly spread others, ascending.
std::vector<std::int64_t> TableVerifier::others_than(std::vector<std::int64_t> rows) const {
  std::ranges::sort(rows);
  std::vector<std::int64_t> beside, sampled, either, others;
  const auto add = [&](std::int64_t row) {
    if (row >= 0 && row < shape_.rows && (beside.empty() || beside.back() != row)) beside.push_back(row);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i - 1] < rows[i] - 1) add(rows[i] - 1);
    if (i + 1 == rows.size() || rows[i + 1] > rows[i] + 1) add(rows[i] + 1);
  }
  const auto step = std::max<std::int64_t>(1, shape_.rows / sampled_rows);
  for (std::int64_t row = 0; row < shape_.rows; row += step) sampled.push_back(row);
  std::ranges::set_union(beside, sampled, std::back_inserter(either));
  std::ranges::set_difference(either, rows, std::back_inserter(others));
  return others;
}

/// Every row of the table; if the cell is not trusted, all but those that were written to.
harness::Check TableVerifier::check_whole(bool trusted) {
  if (trusted && !log_.fresh()) return bytes_.check_all(content_, "table");
  constexpr std::int64_t block = 1 << 16;
  log_.index();
  harness::Check check;
  std::vector<std::int64_t> judged;
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    if (trusted || !log_.is_written(row)) judged.push_back(row);
    if (std::ssize(judged) == block || row + 1 == shape_.rows) {
      merge(check, bytes_.check(judged, last_written(), "table"));
      judged.clear();
    }
  }
  return check;
}

harness::Check TableVerifier::close(bool trusted, bool whole) {
  if (!changed_.empty()) merge(unexplained_, restore_changed());
  harness::Check check;
  if (whole || !trusted) {
    check = check_whole(trusted);
  } else {
    check = bytes_.check(log_.written_rows(), last_written(), "table");
  }
  if (trusted) merge(check, unexplained_);
  unexplained_ = {};
  if (!operands_.memory()->writable()) {  // the file of --table: nothing was or can be written
    log_.clear();
    return check;
  }
  if (check.mismatches > 0) {
    // A stray write may be anywhere: the next cell starts from a clean table.
    fill_memory(*operands_.memory(), 0, shape_.bytes(), content_);
  } else if (log_.fresh() || !trusted) {
    bytes_.write_content(log_.written_rows(), [this](std::int64_t) { return content_; });
  }
  log_.clear();
  return check;
}

}  // namespace stbench
