#include "benchmarks/transfer/arena.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "harness/fill.h"
#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/memory/shared_memory.h"

namespace stbench {
namespace {

using speedtorch::Placement;

/// Up to this many bytes a set the values of all sets are kept, so that back-to-back runs can rotate over
/// them. A sample of one run (1000 clock steps, some 30 us) is reached well below it.
constexpr std::int64_t keep_all_values = std::int64_t{4} << 20;
constexpr std::int64_t sampled_rows = 100'000;

at::ScalarType widest(std::int64_t row_bytes) {
  if (row_bytes % 8 == 0) return at::kLong;
  if (row_bytes % 4 == 0) return at::kInt;
  return row_bytes % 2 == 0 ? at::kShort : at::kByte;
}

at::ScalarType scalar_type(const std::string& dtype) {
  static const std::pair<const char*, at::ScalarType> names[] = {
      {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}, {"float32", at::kFloat}, {"float64", at::kDouble},
      {"int8", at::kChar},    {"int32", at::kInt},         {"int64", at::kLong}};
  for (const auto& [name, type] : names) {
    if (dtype == name) return type;
  }
  throw speedtorch::ShapeError("unknown dtype '" + dtype + "'");
}

/// Ready outputs get the placement's kind of page too; a mapped table's are ordinary ones.
Placement page_kind(Placement placement) {
  return placement == Placement::mapped ? Placement::pageable : placement;
}

/// Rows `first` to `first + count` of each set.
std::shared_ptr<const IndexSets> part_of(const IndexSets& whole, std::int64_t first, std::int64_t count) {
  auto sets = std::make_shared<IndexSets>();
  for (std::size_t set = 0; set < sets->size(); ++set) {
    const auto begin = whole[set].begin() + first;
    (*sets)[set].assign(begin, begin + count);
  }
  return sets;
}

at::Tensor part_of(const at::Tensor& whole, std::int64_t first, std::int64_t count) {
  return whole.defined() ? whole.narrow(0, first, count) : whole;
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

bool rows_move_on_the_model_device(const reports::Identity& id) {
  const bool cuda_placement = id.placement == "pinned" || id.placement == "device";
  return (id.device != "cpu") == cuda_placement;
}

bool rows_move_on_a_gpu(const reports::Identity& id) {
  return id.device != "cpu" && rows_move_on_the_model_device(id);
}

bool rows_cross_the_link(const reports::Identity& id) {
  return id.device != "cpu" && id.placement == "pinned";
}

RowShape shape_of(const reports::Identity& id) {
  const auto dtype = id.dtype == "bytes" ? widest(id.dim) : scalar_type(id.dtype);
  const auto elements =
      id.dtype == "bytes" ? id.dim / static_cast<std::int64_t>(c10::elementSize(dtype)) : id.dim;
  return {id.rows, elements, dtype};
}

std::int64_t callers_of(const reports::Identity& id) {
  const auto* callers = reports::find(id.axes, "callers");
  return callers == nullptr ? 1 : std::get<std::int64_t>(*callers);
}

std::int64_t rows_moved(const reports::Identity& id) {
  std::int64_t rows = 0;
  return __builtin_mul_overflow(id.batch, callers_of(id), &rows) ? std::numeric_limits<std::int64_t>::max()
                                                                 : rows;
}

std::int64_t Arena::working_bytes(const reports::Identity& cell) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t largest_factor = 1024;  // of payload and batch below, together
  std::int64_t payload = 0;
  const auto batch = rows_moved(cell);
  const bool overflows = __builtin_mul_overflow(batch, shape_of(cell).row_bytes(), &payload);
  if (overflows || std::max(payload, batch) > most / largest_factor) return most;
  const auto values = payload <= keep_all_values ? 2 * harness::index_sets * payload : payload;
  // Indices on both sides and the contiguous ones, the ledger of two patterns, the rows of a check, and two
  // of a part.
  const auto indices = batch * (harness::index_sets * std::int64_t{5 * 8 + 2 * 16} + 6 * 8);
  return 3 * payload + values + indices;  // model, a tensor of LibTorch's own, its copy for the checks
}

Arena::Arena(const reports::Identity& cell, std::shared_ptr<speedtorch::Memory> memory,
             std::shared_ptr<const IndexSets> indices, std::uint64_t seed)
    : shape_(shape_of(cell)),
      batch_(rows_moved(cell)),
      whole_batch_(batch_),
      seed_(seed),
      memory_(std::move(memory)),
      bytes_(*memory_, shape_.rows, shape_.row_bytes()),
      model_device_(cell.device),
      same_device_(memory_->device() == model_device_),
      indexed_(std::move(indices)),
      contiguous_(contiguous_sets(shape_.rows, batch_)),
      ledger_(indexed_, contiguous_) {
  const std::array<std::int64_t, 2> table{shape_.rows, shape_.row_elements};
  table_ = memory_->tensor(table, shape_.dtype);
  if (memory_->on_host()) host_table_ = memory_->host_tensor(table, shape_.dtype);
  place_buffers(cell.direction != "to");
  place_indices();
  if (cell.index_dtype == "int32") {
    for (auto* tensors : {&index_, &host_index_}) {
      for (auto& tensor : *tensors) tensor = tensor.to(at::kInt);
    }
  }
  share_indices();
  place_pieces();
  if (const auto callers = callers_of(cell); callers > 1) place_parts(callers);
  if (cell.direction == "both") place_parts(2);
}

Arena::Arena(Arena& whole, std::int64_t first, std::int64_t count)
    : shape_(whole.shape_),
      batch_(count),
      whole_batch_(whole.batch_),
      first_of_batch_(first),
      seed_(whole.seed_),
      memory_(whole.memory_),
      bytes_(*memory_, shape_.rows, shape_.row_bytes()),
      model_device_(whole.model_device_),
      same_device_(whole.same_device_),
      indexed_(part_of(*whole.indexed_, first, count)),
      contiguous_(part_of(*whole.contiguous_, first, count)),
      ledger_(indexed_, contiguous_),
      table_(whole.table_),
      host_table_(whole.host_table_),
      model_(part_of(whole.model_, first, count)),
      bounce_(part_of(whole.bounce_, first, count)),
      staging_(part_of(whole.staging_, first, count)),
      values_(whole.values_) {
  for (std::size_t set = 0; set < index_.size(); ++set) {
    index_[set] = part_of(whole.index_[set], first, count);
    host_index_[set] = part_of(whole.host_index_[set], first, count);
  }
  for (auto& values : values_) values.tensor = part_of(values.tensor, first, count);
  place_pieces();
}

void Arena::place_parts(std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    const auto first = k * batch_ / count;
    parts_.push_back(std::unique_ptr<Arena>(new Arena(*this, first, (k + 1) * batch_ / count - first)));
  }
}

void Arena::forget_result() {
  delivered_.reset();
  for (auto& part : parts_) part->delivered_.reset();
}

/// A ready tensor on the model's device, on the same kind of pages as the table where that is the host, and
/// in shared memory where the table is.
at::Tensor Arena::ready(at::Device device, at::IntArrayRef sizes, at::ScalarType dtype) {
  if (!device.is_cpu()) return at::empty(sizes, at::TensorOptions().dtype(dtype).device(device));
  const auto bytes = c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype));
  const auto kind = page_kind(memory_->placement());
  if (memory_->shared_fd() < 0) return speedtorch::allocate(kind, bytes)->host_tensor(sizes, dtype);
  shared_.push_back(speedtorch::allocate_shared(kind, bytes, memory_->device()));
  return shared_.back()->host_tensor(sizes, dtype);
}

int Arena::shared_fd(const at::Tensor& tensor) const {
  if (tensor.data_ptr() == memory_->data()) return memory_->shared_fd();
  const auto block = std::find_if(shared_.begin(), shared_.end(),
                                  [&](const auto& memory) { return memory->data() == tensor.data_ptr(); });
  return block == shared_.end() ? -1 : (*block)->shared_fd();
}

void Arena::share_indices() {
  if (memory_->shared_fd() < 0) return;
  for (int set = 0; set < harness::index_sets; ++set) {
    auto& host = host_index_[at(set)];
    host = ready(at::kCPU, host.sizes(), host.scalar_type()).copy_(host);
    index_[at(set)] = host.to(table_.device());
  }
}

/// A cell that only reads gets no values: touching half a gigabyte of pages for each wide one took longer
/// than its samples.
void Arena::place_buffers(bool writes) {
  const std::array<std::int64_t, 2> batch{batch_, shape_.row_elements};
  model_ = ready(model_device_, batch, shape_.dtype);
  const bool keep_all = payload_bytes() <= keep_all_values;
  values_.resize(keep_all ? 2 * harness::index_sets : 1);
  for (auto& values : values_) {
    if (writes) values.tensor = ready(model_device_, batch, shape_.dtype);
  }
  if (!same_device_) bounce_ = ready(at::kCPU, batch, shape_.dtype);
  if (!model_device_.is_cpu()) {
    staging_ = speedtorch::allocate(Placement::pinned, payload_bytes(), model_device_)
                   ->host_tensor(batch, shape_.dtype);
  }
}

void Arena::place_indices() {
  for (int set = 0; set < harness::index_sets; ++set) {
    auto* rows =
        const_cast<std::int64_t*>((*indexed_)[at(set)].data());  // from_blob's signature; copied at once
    host_index_[at(set)] = at::from_blob(rows, {batch_}, at::kLong).clone();
    index_[at(set)] = host_index_[at(set)].to(table_.device());
  }
}

void Arena::place_pieces() {
  for (int set = 0; set < harness::index_sets; ++set) {
    const auto& values = values_of(Pattern::contiguous, set).tensor;
    for (std::int64_t done = 0; done < batch_;) {
      const auto first = (set * whole_batch_ + first_of_batch_ + done) % shape_.rows;
      const auto count = std::min(batch_ - done, shape_.rows - first);
      const auto rows = table_.narrow(0, first, count);
      pieces_[at(set)].push_back({rows, memory_->on_host() ? host_table_.narrow(0, first, count) : rows,
                                  model_.narrow(0, done, count),
                                  values.defined() ? values.narrow(0, done, count) : values,
                                  staging_.defined() ? staging_.narrow(0, done, count) : staging_});
      done += count;
    }
  }
}

Arena::Values& Arena::values_of(Pattern pattern, int set) {
  if (values_.size() == 1) return values_.front();
  return values_[at(set) +
                 (pattern == Pattern::indexed ? 0U : static_cast<std::size_t>(harness::index_sets))];
}

at::Tensor& Arena::buffer(Pattern pattern, int set) { return values_of(pattern, set).tensor; }

const std::vector<std::int64_t>& Arena::rows_of(Pattern pattern, int set) const {
  return pattern == Pattern::indexed ? (*indexed_)[at(set)] : (*contiguous_)[at(set)];
}

/// Epoch 0 is the table's own fill.
std::uint64_t Arena::seed_of(std::uint64_t generation) const {
  return generation == 0 ? seed_ : harness::word(seed_, ~generation);
}

void Arena::upload() {
  if (!same_device_) model_.copy_(bounce_);
}

at::Tensor& Arena::download(int set) {
  if (same_device_) return values(set);
  return bounce_.copy_(values(set));
}

void Arena::deliver(at::Tensor result) {
  if (result.device() == model_device_) {
    delivered_ = std::move(result);
  } else {
    model_.copy_(result);
  }
}

void Arena::finish() const {
  if (!model_device_.is_cpu()) speedtorch::synchronize_cuda(model_device_);
}

void Arena::prepare_values(Pattern pattern, int set, std::uint64_t generation) {
  forget_result();
  const auto& rows = rows_of(pattern, set);
  ledger_.write(pattern, set, generation);
  if (memory_->placement() == Placement::mapped) bytes_.dirty(rows);
  auto& values = values_of(pattern, set);
  // One buffer for all sets is filled before every sample, so that none finds it warmer than another.
  const bool current = values.generation == generation && values.set == set && values.pattern == pattern;
  if (current && rotates_values()) return;
  const auto seed = [this, generation](std::int64_t) { return seed_of(generation); };
  if (model_device_.is_cpu()) {
    fill_rows(values.tensor, rows, seed);
  } else {
    fill_rows(staging_, rows, seed);
    values.tensor.copy_(staging_);
  }
  values.generation = generation, values.set = set, values.pattern = pattern;
}

void Arena::poison_model() {
  forget_result();
  poison(model_);
}

void Arena::poison_rows(Pattern pattern, int set) { bytes_.poison(rows_of(pattern, set)); }

harness::Check Arena::check_parts(Pattern pattern, int set, std::uint64_t generation, Equality equality) {
  harness::Check check;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    auto found = parts_[k]->check_model(pattern, set, generation, equality);
    if (!found.first.empty()) found.first = "caller " + std::to_string(k) + ": " + found.first;
    merge(check, found);
  }
  return check;
}

harness::Check Arena::check_model(Pattern pattern, int set, std::uint64_t generation, Equality equality) {
  if (!parts_.empty()) return check_parts(pattern, set, generation, equality);
  const auto& result = delivered_.defined() ? delivered_ : model_;
  const auto& rows = rows_of(pattern, set);
  if (result.scalar_type() != shape_.dtype) {
    return {std::ssize(rows), std::ssize(rows),
            std::string("the result is of dtype ") + c10::toString(result.scalar_type())};
  }
  return check_rows(result, rows, shape_.row_bytes(), seed_of(generation), "model tensor", equality);
}

harness::Check Arena::check_named(Pattern pattern, int set, std::uint64_t generation) {
  auto check = bytes_.check(
      rows_of(pattern, set), [&](std::int64_t) { return seed_of(generation); }, "table");
  if (check.mismatches > 0) repair(pattern, set);
  return check;
}

harness::Check Arena::check_others(Pattern pattern, int set) {
  auto check = bytes_.check(others_than(rows_of(pattern, set)), last_written(),
                            "rows of the table that were not named");
  if (check.mismatches > 0) repair_all();
  return check;
}

void Arena::repair(Pattern pattern, int set) { bytes_.write_fill(rows_of(pattern, set), last_written()); }

void Arena::repair_all() {
  fill_memory(*memory_, 0, shape_.bytes(), seed_);
  if (ledger_.fresh()) bytes_.write_fill(ledger_.written_rows(), last_written());
}

/// What each row should hold.
SeedOf Arena::last_written() {
  if (!ledger_.fresh()) return [this](std::int64_t) { return seed_; };
  ledger_.index();
  return [this](std::int64_t row) { return seed_of(ledger_.generation_of(row)); };
}

/// The rows beside these, and evenly spread others, ascending.
std::vector<std::int64_t> Arena::others_than(std::vector<std::int64_t> rows) const {
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

/// Every row of the table, but where the cell is not to be trusted those that were written to.
harness::Check Arena::check_whole(bool trusted) {
  if (trusted && !ledger_.fresh()) return bytes_.check_all(seed_, "table");
  constexpr std::int64_t block = 1 << 16;
  ledger_.index();
  harness::Check check;
  std::vector<std::int64_t> judged;
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    if (trusted || !ledger_.is_written(row)) judged.push_back(row);
    if (std::ssize(judged) == block || row + 1 == shape_.rows) {
      merge(check, bytes_.check(judged, last_written(), "table"));
      judged.clear();
    }
  }
  return check;
}

harness::Check Arena::close(bool trusted, bool whole) {
  harness::Check check;
  if (whole || !trusted) {
    check = check_whole(trusted);
  } else {
    check = bytes_.check(ledger_.written_rows(), last_written(), "table");
  }
  if (trusted) merge(check, unexplained_);
  unexplained_ = {};
  if (check.mismatches > 0) {
    fill_memory(*memory_, 0, shape_.bytes(),
                seed_);  // strays anywhere: the next cell starts from a clean table
  } else if (ledger_.fresh() || !trusted) {
    bytes_.write_fill(ledger_.written_rows(), [this](std::int64_t) { return seed_; });
  }
  ledger_.clear();
  return check;
}

}  // namespace stbench
