#include "speedtorch/sharded/sharded_table.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/rows/gather.h"
#include "speedtorch/sharded/agreement.h"
#include "speedtorch/sharded/row_route.h"
#include "speedtorch/tables/table_rows.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

enum class Operation : std::int64_t { gather, scatter, step };
constexpr const char* kOperations[] = {"gather", "scatter", "step"};

/// What a rank tells each other rank before anything else travels.
enum Header { operation, detail, number, refused, count, most, kWords };

/// Which rows of a chunk go where: a pointer to their first byte, their rank, and their numbers in its list.
using Piece = std::function<void(int rank, std::int64_t begin, std::int64_t count, std::byte* data)>;

std::size_t at_rank(int rank) { return static_cast<std::size_t>(rank); }

std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> begins = {0};
  for (const auto each : counts) begins.push_back(begins.back() + each);
  return begins;
}

at::Tensor numbers_at(const std::vector<std::int64_t>& numbers, std::int64_t first, std::int64_t count) {
  return at::from_blob(const_cast<std::int64_t*>(numbers.data()) + first, {count}, at::kLong);  // only read
}

/// Copies row k of `from`, or row rows[k] if there are rows, to each of its positions in `to`.
void place_rows(const std::byte* from, std::span<const std::int64_t> rows, const RowRoute& route,
                std::int64_t first, std::int64_t count, std::byte* to, std::int64_t row_bytes) {
  const auto grain = std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, row_bytes));
  constexpr std::int64_t ahead = 16;  // scattered rows are on their way to the cache before they are copied
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto k = begin; k < end; ++k) {
      if (!rows.empty() && k + ahead < end)
        __builtin_prefetch(from + rows[static_cast<std::size_t>(k + ahead)] * row_bytes);
      const auto* row = from + (rows.empty() ? k : rows[static_cast<std::size_t>(k)]) * row_bytes;
      const auto j = static_cast<std::size_t>(first + k);
      for (auto p = route.places[j]; p < route.places[j + 1]; ++p) {
        std::memcpy(to + route.positions[static_cast<std::size_t>(p)] * row_bytes, row,
                    static_cast<std::size_t>(row_bytes));
      }
    }
  });
}

std::string text_of(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

}  // namespace

struct ShardedTable::Impl {
  RankGroup group;
  RowOwners owners;
  Table shard;
  std::vector<std::int64_t> sizes;
  std::int64_t chunk_bytes;
  std::int64_t row_bytes;
  std::int64_t operations = 0;
  ExchangeCounts last = {};

  struct Agreed {
    std::vector<std::int64_t> to, from;  // rows of each rank's list that travel to it, and from it
    std::int64_t most;                   // the longest list of any two ranks
  };
  Agreed agree(Operation what, std::int64_t how, const RowRoute& route, const std::exception_ptr& refusal);
  void in_chunks(std::int64_t item_bytes, const Agreed& agreed, const Piece& fill, const Piece& place,
                 const std::function<void()>& meanwhile);
  std::vector<std::int64_t> exchange_rows(const RowRoute& route, const Agreed& agreed);
  void gather(const RowRoute& route, const Agreed& agreed, at::Tensor& out);
  void read_own(const RowRoute& route, at::Tensor& out);
  std::pair<at::Tensor, at::Tensor> deliver(const RowRoute& route, const Agreed& agreed,
                                            const at::Tensor& values);
  void check_batch(const at::Tensor& numbers, const at::Tensor& rows, const char* name) const;
  std::exception_ptr repeated(const RowRoute& route, const Agreed& agreed,
                              const std::vector<std::int64_t>& rows);
};

ShardedTable::ShardedTable(const RankGroup& group, Table shard, std::int64_t rows,
                           const ShardedOptions& options) {
  auto sizes = shard.sizes().vec();
  sizes.front() = rows;
  group.require_agreement({{"the shape", text_of(sizes)},
                           {"the dtype", c10::toString(shard.dtype())},
                           {"the sharding", std::string(to_string(options.sharding))},
                           {"chunk_bytes", std::to_string(options.chunk_bytes)}});
  const auto refusal = attempt(group, [&] {
    if (rows < 0) throw ShapeError("a table of " + std::to_string(rows) + " rows");
    if (options.chunk_bytes < 1)
      throw OptionError("chunk_bytes is " + std::to_string(options.chunk_bytes) + "; 1 or more is needed");
    const RowOwners owners(options.sharding, rows, group.size());
    if (shard.rows() != owners.rows_of(group.rank()))
      throw ShapeError("the shard has " + std::to_string(shard.rows()) + " rows; this rank holds " +
                       std::to_string(owners.rows_of(group.rank())) + of_rank(group));
  });
  throw_refusals(group, refusal);
  const auto row_bytes = c10::multiply_integers(shard.sizes().slice(1)) *
                         static_cast<std::int64_t>(c10::elementSize(shard.dtype()));
  impl_ = std::make_shared<Impl>(Impl{group, RowOwners(options.sharding, rows, group.size()),
                                      std::move(shard), std::move(sizes), options.chunk_bytes, row_bytes});
}

namespace {

/// Makes this rank's rows; ranks that make another table, or cannot make theirs, end the others.
Table make_shard(const RankGroup& group, at::IntArrayRef sizes, at::ScalarType dtype,
                 const ShardedOptions& options,
                 const std::function<Table(at::IntArrayRef, const RowOwners&)>& make) {
  group.require_agreement({{"the shape", text_of(sizes)},
                           {"the dtype", c10::toString(dtype)},
                           {"the sharding", std::string(to_string(options.sharding))},
                           {"chunk_bytes", std::to_string(options.chunk_bytes)}});
  std::optional<Table> made;
  const auto refusal = attempt(group, [&] {
    if (sizes.empty() || sizes.front() < 0) throw ShapeError("a table of shape " + text_of(sizes));
    const RowOwners owners(options.sharding, sizes.front(), group.size());
    auto mine = sizes.vec();
    mine.front() = owners.rows_of(group.rank());
    made = make(mine, owners);
  });
  throw_refusals(group, refusal);
  return *std::move(made);
}

}  // namespace

ShardedTable ShardedTable::empty(const RankGroup& group, at::IntArrayRef sizes, at::ScalarType dtype,
                                 const ShardedOptions& options) {
  auto shard = make_shard(group, sizes, dtype, options, [&](at::IntArrayRef mine, const RowOwners&) {
    return Table::empty(mine, dtype, options.shard);
  });
  return {group, std::move(shard), sizes.front(), options};
}

ShardedTable ShardedTable::from_array(const RankGroup& group, const at::Tensor& array,
                                      const ShardedOptions& options) {
  const auto make = [&](at::IntArrayRef mine, const RowOwners& owners) {
    std::vector<std::int64_t> rows;
    for (std::int64_t k = 0; k < mine.front(); ++k) rows.push_back(owners.row_of({group.rank(), k}));
    return Table::from_array(gather_rows(array.contiguous(), numbers_at(rows, 0, mine.front())),
                             options.shard);
  };
  auto shard = make_shard(group, array.sizes(), array.scalar_type(), options, make);
  return {group, std::move(shard), array.size(0), options};
}

ShardedTable::Impl::Agreed ShardedTable::Impl::agree(Operation what, std::int64_t how, const RowRoute& route,
                                                     const std::exception_ptr& refusal) {
  Agreed agreed{std::vector<std::int64_t>(at_rank(group.size())),
                std::vector<std::int64_t>(at_rank(group.size())), 0};
  if (!refusal) agreed.to = route.counts();
  agreed.to[at_rank(group.rank())] = 0;  // its own rows do not travel
  const auto longest = *std::max_element(agreed.to.begin(), agreed.to.end());
  std::vector<std::int64_t> words;
  for (const auto rows : agreed.to)
    for (const std::int64_t word :
         {static_cast<std::int64_t>(what), how, operations, std::int64_t{refusal != nullptr}, rows, longest})
      words.push_back(word);
  ++operations;
  const auto said = group.exchange(words, kWords);
  bool any_refused = false;
  for (int r = 0; r < group.size(); ++r) {
    const auto* theirs = said.data() + at_rank(r) * kWords;
    for (const auto& [word, name] :
         {std::pair{operation, "the operation"}, {detail, "its duplicates"}, {number, "its number"}}) {
      if (theirs[word] == said[at_rank(word)]) continue;
      const auto value = [which = word](const std::int64_t* words_of) {
        return which == operation ? kOperations[words_of[which]] : std::to_string(words_of[which]);
      };
      throw DisagreementError(std::string("the ranks disagree on ") + name + ": rank 0 has " +
                              value(said.data()) + ", rank " + std::to_string(r) + " has " + value(theirs));
    }
    any_refused = any_refused || theirs[refused] != 0;
    agreed.from[at_rank(r)] = theirs[count];
    agreed.most = std::max(agreed.most, theirs[most]);
  }
  if (any_refused) throw_refusals(group, refusal);
  return agreed;
}

/// Moves each rank's list in chunks: the next chunk is filled while one is on its way, and the last one
/// placed.
void ShardedTable::Impl::in_chunks(std::int64_t item_bytes, const Agreed& agreed, const Piece& fill,
                                   const Piece& place, const std::function<void()>& meanwhile) {
  const auto step = std::max<std::int64_t>(1, chunk_bytes / std::max<std::int64_t>(1, item_bytes));
  const auto chunks = (agreed.most + step - 1) / step;
  const auto splits = [&](const std::vector<std::int64_t>& counts, std::int64_t chunk) {
    std::vector<std::int64_t> bytes;
    for (const auto each : counts)
      bytes.push_back(std::clamp<std::int64_t>(each - chunk * step, 0, step) * item_bytes);
    return bytes;
  };
  const auto each_piece = [&](const at::Tensor& buffer, const std::vector<std::int64_t>& bytes,
                              std::int64_t chunk, const Piece& piece) {
    auto* data = static_cast<std::byte*>(buffer.data_ptr());
    for (int r = 0; r < group.size(); ++r) {
      const auto size = bytes[at_rank(r)];
      if (size > 0) piece(r, chunk * step, size / item_bytes, data);
      data += size;
    }
  };
  const auto filled = [&](std::int64_t chunk) {
    const auto bytes = splits(agreed.to, chunk);
    auto buffer = at::empty({begins_of(bytes).back()}, at::kByte);
    each_piece(buffer, bytes, chunk, fill);
    return buffer;
  };
  const auto start = [&](const at::Tensor& send, std::int64_t chunk) {
    const auto bytes = splits(agreed.from, chunk);
    auto receive = at::empty({begins_of(bytes).back()}, at::kByte);
    return std::pair{receive, group.start(send, splits(agreed.to, chunk), receive, bytes)};
  };
  last.chunks = chunks;
  if (chunks == 0) return meanwhile();
  auto [receive, transfer] = start(filled(0), 0);
  meanwhile();
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto next = chunk + 1 < chunks ? filled(chunk + 1) : at::Tensor();
    transfer.wait();
    const auto arrived = receive;
    if (next.defined()) std::tie(receive, transfer) = start(next, chunk + 1);
    each_piece(arrived, splits(agreed.from, chunk), chunk, place);
  }
}

/// The input dist: returns the rows that other ranks named here, those of rank 0 first.
std::vector<std::int64_t> ShardedTable::Impl::exchange_rows(const RowRoute& route, const Agreed& agreed) {
  constexpr std::int64_t id_bytes = sizeof(std::int64_t);
  const auto begins = begins_of(agreed.from);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(begins.back()));
  const auto fill = [&](int rank, std::int64_t begin, std::int64_t rows_now, std::byte* to) {
    std::memcpy(to, route.rows.data() + route.begins[at_rank(rank)] + begin,
                static_cast<std::size_t>(rows_now * id_bytes));
  };
  const auto place = [&](int rank, std::int64_t begin, std::int64_t rows_now, const std::byte* from) {
    std::memcpy(rows.data() + begins[at_rank(rank)] + begin, from,
                static_cast<std::size_t>(rows_now * id_bytes));
  };
  in_chunks(id_bytes, agreed, fill, place, [] {});
  last.asked_rows = begins_of(agreed.to).back();
  last.served_rows = begins.back();
  return rows;
}

void ShardedTable::Impl::check_batch(const at::Tensor& numbers, const at::Tensor& rows,
                                     const char* name) const {
  auto flat = sizes;
  flat.front() = numbers.numel();
  const auto shaped = joined_sizes(numbers.sizes(), at::IntArrayRef(sizes).slice(1));
  const bool fits = rows.defined() && (rows.sizes() == shaped || rows.sizes() == flat) &&
                    rows.scalar_type() == shard.dtype();
  if (fits && rows.is_cpu() && rows.is_contiguous() && !is_lazy(rows)) return;
  throw ShapeError("table " + std::string(c10::toString(shard.dtype())) + " " + text_of(sizes) + ", index " +
                   shape_of(numbers) + " and " + name + " " +
                   (rows.defined() ? layout_of(rows) : "(undefined)") + " do not fit: " + name +
                   " needs one contiguous row of the table's shape and dtype for each index, on the CPU");
}

void ShardedTable::Impl::read_own(const RowRoute& route, at::Tensor& out) {
  const auto first = route.begins[at_rank(group.rank())], rows = route.count(group.rank());
  if (rows == 0) return;
  auto* to = static_cast<std::byte*>(out.data_ptr());
  if (shard.memory()->on_host()) {
    wait_for_gpu(shard);
    const auto mine =
        std::span(route.rows).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
    return place_rows(shard.memory()->data(), mine, route, first, rows, to, row_bytes);
  }
  const auto read = gather_rows(shard, numbers_at(route.rows, first, rows), at::kCPU);
  place_rows(static_cast<const std::byte*>(read.const_data_ptr()), {}, route, first, rows, to, row_bytes);
}

/// Lookup and output dist.
void ShardedTable::Impl::gather(const RowRoute& route, const Agreed& agreed, at::Tensor& out) {
  const auto asked = exchange_rows(route, agreed);
  const auto begins = begins_of(agreed.from);
  const auto look_up = [&](int rank, std::int64_t begin, std::int64_t rows, std::byte* to) {
    auto mine = sizes;
    mine.front() = rows;
    auto into = at::from_blob(to, mine, shard.dtype());
    gather_rows(shard, numbers_at(asked, begins[at_rank(rank)] + begin, rows), into);
  };
  const auto place = [&](int rank, std::int64_t begin, std::int64_t rows, const std::byte* from) {
    place_rows(from, {}, route, route.begins[at_rank(rank)] + begin, rows,
               static_cast<std::byte*>(out.data_ptr()), row_bytes);
  };
  const Agreed back{agreed.from, agreed.to, agreed.most};
  in_chunks(row_bytes, back, look_up, place, [&] { read_own(route, out); });
  bump_version(out);
}

/// Brings each value to its row's rank. Returns this rank's rows and their values, by rank and then by
/// position.
std::pair<at::Tensor, at::Tensor> ShardedTable::Impl::deliver(const RowRoute& route, const Agreed& agreed,
                                                              const at::Tensor& values) {
  auto from = agreed.from;
  const auto here = group.rank();
  const auto own = route.begins[at_rank(here)], own_rows = route.count(here);
  from[at_rank(here)] = own_rows;
  const auto begins = begins_of(from);
  auto shape = sizes;
  shape.front() = begins.back();
  auto rows = at::empty({begins.back()}, at::kLong),
       received = at::empty(shape, at::TensorOptions().dtype(shard.dtype()));
  auto* const row = rows.data_ptr<std::int64_t>();
  auto* const value = static_cast<std::byte*>(received.data_ptr());
  const auto* const given = static_cast<const std::byte*>(values.const_data_ptr());
  const auto pick = [&](std::int64_t first, std::int64_t count_now, std::byte* to) {
    for (std::int64_t k = 0; k < count_now; ++k, to += row_bytes)
      std::memcpy(to, given + route.positions[static_cast<std::size_t>(first + k)] * row_bytes,
                  static_cast<std::size_t>(row_bytes));
  };
  const auto sent = exchange_rows(route, agreed);
  const auto sent_begins = begins_of(agreed.from);
  for (int r = 0; r < group.size(); ++r)
    std::copy_n((r == here ? route.rows.data() + own : sent.data() + sent_begins[at_rank(r)]),
                from[at_rank(r)], row + begins[at_rank(r)]);
  const auto fill = [&](int rank, std::int64_t begin, std::int64_t now, std::byte* to) {
    pick(route.begins[at_rank(rank)] + begin, now, to);
  };
  const auto place = [&](int rank, std::int64_t begin, std::int64_t now, const std::byte* bytes) {
    std::memcpy(value + (begins[at_rank(rank)] + begin) * row_bytes, bytes,
                static_cast<std::size_t>(now * row_bytes));
  };
  in_chunks(row_bytes, agreed, fill, place,
            [&] { pick(own, own_rows, value + begins[at_rank(here)] * row_bytes); });
  return {rows, received};
}

at::Tensor ShardedTable::gather(const RowIndex& index) {
  at::Tensor out;
  RowRoute route;
  const auto refusal = attempt(group(), [&] {
    const auto numbers = index.numbers(rows(), at::kCPU);
    route = route_of(numbers, owners(), Repeated::once);
    out = at::empty(joined_sizes(numbers.sizes(), sizes().slice(1)), at::TensorOptions().dtype(dtype()));
  });
  impl_->gather(route, impl_->agree(Operation::gather, 0, route, refusal), out);
  return out;
}

void ShardedTable::gather(const RowIndex& index, at::Tensor& out) {
  RowRoute route;
  const auto refusal = attempt(group(), [&] {
    const auto numbers = index.numbers(rows(), at::kCPU);
    impl_->check_batch(numbers, out, "out");
    route = route_of(numbers, owners(), Repeated::once);
  });
  impl_->gather(route, impl_->agree(Operation::gather, 0, route, refusal), out);
}

/// The first row that two ranks name, as an error that is the same on each rank; null if there is none.
std::exception_ptr ShardedTable::Impl::repeated(const RowRoute& route, const Agreed& agreed,
                                                const std::vector<std::int64_t>& rows) {
  std::vector<std::pair<std::int64_t, int>> named;  // of this rank's rows: by whom
  const auto begins = begins_of(agreed.from);
  for (int r = 0; r < group.size(); ++r) {
    for (auto k = begins[at_rank(r)]; k < begins[at_rank(r) + 1]; ++k)
      named.emplace_back(rows[static_cast<std::size_t>(k)], r);
    if (r == group.rank())
      for (std::int64_t k = 0; k < route.count(r); ++k)
        named.emplace_back(route.rows[static_cast<std::size_t>(route.begins[at_rank(r)] + k)], r);
  }
  std::sort(named.begin(), named.end());
  const auto twice =
      std::adjacent_find(named.begin(), named.end(), [](auto a, auto b) { return a.first == b.first; });
  const bool none = twice == named.end();
  const std::vector<std::int64_t> mine =
      none ? std::vector<std::int64_t>{-1, 0, 0}
           : std::vector<std::int64_t>{owners.row_of({group.rank(), twice->first}), twice->second,
                                       (twice + 1)->second};
  std::vector<std::int64_t> words;
  for (int r = 0; r < group.size(); ++r) words.insert(words.end(), mine.begin(), mine.end());
  const auto said = group.exchange(words, 3);
  const std::int64_t* found = nullptr;
  for (int r = 0; r < group.size() && found == nullptr; ++r)
    if (said[at_rank(r) * 3] >= 0) found = said.data() + at_rank(r) * 3;
  if (found == nullptr) return nullptr;
  const auto place = owners.place_of(found[0]);
  std::int64_t position = -1;
  for (auto k = route.begins[at_rank(place.rank)]; k < route.begins[at_rank(place.rank) + 1]; ++k)
    if (route.rows[static_cast<std::size_t>(k)] == place.row)
      position = route.positions[static_cast<std::size_t>(k)];
  const auto positions = group.exchange(std::vector<std::int64_t>(at_rank(group.size()), position), 1);
  return std::make_exception_ptr(DuplicateError(
      found[0], positions[static_cast<std::size_t>(found[1])], positions[static_cast<std::size_t>(found[2])],
      " (on ranks " + std::to_string(found[1]) + " and " + std::to_string(found[2]) + ")"));
}

void ShardedTable::scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates) {
  RowRoute route;
  const auto refusal = attempt(group(), [&] {
    shard().require_writable();
    const auto numbers = index.numbers(rows(), at::kCPU);
    impl_->check_batch(numbers, values, "values");
    if (duplicates == Duplicates::reject) require_distinct(numbers, rows());
    route = route_of(numbers, owners(), duplicates == Duplicates::last ? Repeated::last : Repeated::all);
  });
  const auto agreed = impl_->agree(Operation::scatter, static_cast<std::int64_t>(duplicates), route, refusal);
  if (duplicates == Duplicates::reject)
    if (const auto twice = impl_->repeated(route, agreed, impl_->exchange_rows(route, agreed)))
      std::rethrow_exception(twice);
  const auto [rows, received] = impl_->deliver(route, agreed, values);
  scatter_rows(shard(), rows, received, duplicates == Duplicates::reject ? Duplicates::none : duplicates);
}

void ShardedTable::step(SparseRows& optimizer, const RowIndex& index, const at::Tensor& grad) {
  RowRoute route;
  const auto refusal = attempt(group(), [&] {
    shard().require_writable();
    const auto numbers = index.numbers(rows(), at::kCPU);
    impl_->check_batch(numbers, grad, "grad");
    if (optimizer.table().sizes() != shard().sizes() || optimizer.table().scalar_type() != dtype() ||
        optimizer.table().const_data_ptr() != shard().host_tensor().const_data_ptr())
      throw ShapeError("the optimizer's table is not this rank's shard; make it over shard().host_tensor()" +
                       of_rank(group()));
    route = route_of(numbers, owners(), Repeated::all);
  });
  const auto agreed = impl_->agree(Operation::step, 0, route, refusal);
  const auto [rows, received] = impl_->deliver(route, agreed, grad);
  optimizer.step(rows, received);
}

const Table& ShardedTable::shard() const { return impl_->shard; }
const RowOwners& ShardedTable::owners() const { return impl_->owners; }
const RankGroup& ShardedTable::group() const { return impl_->group; }
at::IntArrayRef ShardedTable::sizes() const { return impl_->sizes; }
const ExchangeCounts& ShardedTable::last_exchange() const { return impl_->last; }

}  // namespace speedtorch
