#include "speedtorch/sharded/sharded_table.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/memory/new_output.h"
#include "speedtorch/rows/gather.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/sharded/agreement.h"
#include "speedtorch/sharded/message_bytes.h"
#include "speedtorch/sharded/node_shards.h"
#include "speedtorch/sharded/row_exchange.h"
#include "speedtorch/sharded/row_route.h"
#include "speedtorch/tables/table_rows.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

using Operation = ShardedOperation;
constexpr const char* kOperations[] = {"gather", "scatter", "step"};

/// What a rank tells each other rank before anything else travels.
enum Header { table, operation, detail, number, refused, count, kWords };
constexpr std::int64_t kHeaderBytes = kWords * sizeof(std::int64_t);

/// Row numbers that travel with the header, of all ranks and to or from one: a small batch takes no message
/// of its own for them.
constexpr std::int64_t kEarlyOfAll = 8192, kEarlyMost = 1024, kEarlyLeast = 16;
constexpr std::int64_t kIdMessage = std::int64_t{64} << 20;  // bytes of the others at most
constexpr std::int64_t kKeptBytes = std::int64_t{32}
                                    << 20;  // bytes of row numbers kept for the next operation

std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> begins = {0};
  for (const auto each : counts) begins.push_back(begins.back() + each);
  return begins;
}

at::Tensor numbers_at(const std::vector<std::int64_t>& numbers, std::int64_t first, std::int64_t count) {
  return at::from_blob(const_cast<std::int64_t*>(numbers.data()) + first, {count}, at::kLong);  // only read
}

/// An exchange that an error of this rank's own leaves halfway ends the group: the other ranks' messages no
/// longer fit to this rank's. It is whole again once `whole` is true.
struct Exchanging {
  const RankGroup& group;
  bool whole = false;
  explicit Exchanging(const RankGroup& ranks) : group(ranks) {}
  Exchanging(const Exchanging&) = delete;
  Exchanging& operator=(const Exchanging&) = delete;
  ~Exchanging() {
    if (!whole) group.abandon("this rank left an exchange halfway by an error");
  }
};

std::byte* data_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

at::Tensor part_of(std::byte* data, std::int64_t bytes) { return at::from_blob(data, {bytes}, at::kByte); }

/// Makes `buffer` as long as is needed. What it held is lost.
void grow(at::Tensor& buffer, std::int64_t bytes) {
  if (buffer.defined() && buffer.numel() >= bytes && (bytes > kKeptBytes || buffer.numel() <= kKeptBytes))
    return;
  buffer.reset();  // before there is a larger one
  buffer = message_bytes(std::max<std::int64_t>(1, bytes));
}

/// Copies the rows `count` from number `first` of the route to their other positions in `to`, past the cache
/// if that is large.
/// @param number_of the number in `from` of a row by its number in the route
template <class NumberOf>
void place_repeats(kernels::ConstRows from, const RowRoute& route, std::int64_t first, std::int64_t count,
                   kernels::Rows to, NumberOf number_of) {
  const auto at = [&](std::int64_t row) {
    return std::lower_bound(route.repeat_rows.begin(), route.repeat_rows.end(), row) -
           route.repeat_rows.begin();
  };
  const auto begin = at(first), end = at(first + count);
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(end - begin));
  for (auto k = begin; k < end; ++k)
    numbers.push_back(number_of(route.repeat_rows[static_cast<std::size_t>(k)]));
  kernels::place_rows(from, numbers.data(), route.repeat_positions.data() + begin, end - begin, to,
                      parallel_for);
}

/// Writes rows that follow each other in `from`, `count` from number `first` of the route, to all of their
/// positions in `to`, as a scatter of the whole batch would: past the cache if that is large.
void place_received(const std::byte* from, const RowRoute& route, std::int64_t first, std::int64_t count,
                    kernels::Rows to) {
  if (to.row_bytes == 0 || count == 0) return;
  const auto move =
      kernels::plan_scatter({from, to.rows, to.row_bytes, to.row_bytes}, route.positions.data() + first, to);
  const auto grain = std::max<std::int64_t>(1, kernels::plan_in_use().thread_bytes / to.row_bytes);
  const auto range = [&](std::int64_t begin, std::int64_t end) { kernels::run(move, begin, end); };
  if (count <= grain) {
    range(0, count);
  } else {
    parallel_for(count, grain, range);
  }
  place_repeats({from, count, to.row_bytes, to.row_bytes}, route, first, count, to,
                [&](std::int64_t row) { return row - first; });
}

std::string text_of(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

/// The facts that the ranks of a table must agree on.
RankGroup::Facts facts_of(at::IntArrayRef sizes, at::ScalarType dtype, const ShardedOptions& options) {
  return {{"the shape", text_of(sizes)},
          {"the dtype", c10::toString(dtype)},
          {"the sharding", std::string(to_string(options.sharding))},
          {"chunk_bytes", std::to_string(options.chunk_bytes)},
          {"node_first", options.node_first ? "true" : "false"}};
}

TableOptions shard_options(const ShardedOptions& options) {
  auto shard = options.shard;
  const bool can_be_shared = shard.placement == Placement::pageable || shard.placement == Placement::hugepage;
  shard.shared = shard.shared || (options.node_first && can_be_shared);
  return shard;
}

void check_options(const ShardedOptions& options) {
  if (options.chunk_bytes < 1)
    throw OptionError("chunk_bytes is " + std::to_string(options.chunk_bytes) + "; 1 or more is needed");
  if (!options.node.empty() && !options.node_first)
    throw OptionError("node is '" + options.node +
                      "' and node_first is off; set node_first, or leave node empty");
}

}  // namespace

struct ShardedTable::Impl {
  RankGroup group;
  RowOwners owners;
  Table shard;
  std::vector<std::int64_t> sizes;
  std::int64_t row_bytes;
  std::int64_t id;  // rank 0 numbers its tables
  std::int64_t operations = 0;
  ExchangeCounts last = {};

  NodeShards node;
  RowExchange exchange;
  RowRoute route = {};
  at::ScalarType id_type;
  at::Tensor headers_out = {}, headers_in = {}, ids_out = {}, ids_in = {};
  std::vector<RankGroup::Transfer> headers = {};

  /// Rows of each rank's list that travel to it, and from it.
  struct Agreed {
    std::vector<std::int64_t> to, from;
    std::vector<RankGroup::Transfer> rest = {};  // of the row numbers
  };
  void listen();
  Agreed agree(Operation what, std::int64_t how, const std::exception_ptr& refusal);
  void pack_ids();
  void send_headers(const std::vector<std::int64_t>& words);
  std::vector<std::int64_t> receive_headers(const std::vector<std::int64_t>& mine);
  void exchange_ids(Agreed& agreed);
  at::Tensor asked_rows(Agreed& agreed);
  void gather(Agreed agreed, at::Tensor& out);
  [[nodiscard]] std::int64_t near_rows() const;
  void read_near(std::int64_t first, std::int64_t rows, kernels::Rows out);
  void read_listed(int rank, std::int64_t first, std::int64_t rows, kernels::Rows out);
  std::pair<at::Tensor, at::Tensor> deliver(const Agreed& agreed, const at::Tensor& asked,
                                            const at::Tensor& values);
  std::pair<at::Tensor, at::Tensor> collect(const RowIndex& index, const at::Tensor& grad,
                                            const std::function<void()>& check);
  void check_written(const at::Tensor& numbers, const at::Tensor& out) const;
  void check_batch(const at::Tensor& numbers, const at::Tensor& rows, const char* name) const;
  std::exception_ptr repeated(const Agreed& agreed, const at::Tensor& asked);

  [[nodiscard]] std::int64_t id_bytes() const { return static_cast<std::int64_t>(c10::elementSize(id_type)); }
  [[nodiscard]] std::int64_t early() const {
    return std::clamp(kEarlyOfAll / group.size(), kEarlyLeast, kEarlyMost);
  }
  [[nodiscard]] std::int64_t header_bytes() const { return kHeaderBytes + early() * id_bytes(); }
  /// The header for or from a rank, and the row numbers behind it.
  [[nodiscard]] std::byte* header(const at::Tensor& headers_of, int rank) const {
    return data_of(headers_of) + rank * header_bytes();
  }
  template <class Work>
  void each_other(Work work) const {
    for (int r = 0; r < group.size(); ++r)
      if (r != group.rank()) work(r);
  }
};

ShardedTable::ShardedTable(const RankGroup& group, Table shard, std::int64_t rows,
                           const ShardedOptions& options) {
  auto sizes = shard.sizes().vec();
  sizes.front() = rows;
  group.require_agreement(facts_of(sizes, shard.dtype(), options));
  const auto refusal = attempt(group, [&] {
    if (rows < 0) throw ShapeError("a table of " + std::to_string(rows) + " rows");
    check_options(options);
    const RowOwners owners(options.sharding, rows, group.size());
    if (shard.rows() != owners.rows_of(group.rank()))
      throw ShapeError("the shard has " + std::to_string(shard.rows()) + " rows; this rank holds " +
                       std::to_string(owners.rows_of(group.rank())) + of_rank(group));
  });
  throw_refusals(group, refusal);
  const auto row_bytes = c10::multiply_integers(shard.sizes().slice(1)) *
                         static_cast<std::int64_t>(c10::elementSize(shard.dtype()));
  const RowOwners owners(options.sharding, rows, group.size());
  static std::atomic<std::int64_t> tables_made = 0;
  const std::vector<std::int64_t> number(at_rank(group.size()), tables_made++);
  const auto id_of_table = group.exchange(number, 1).front();
  const auto id_type = owners.number_bytes() == 4 ? at::kInt : at::kLong;
  auto node = options.node_first ? NodeShards(group, shard, options.node) : NodeShards();
  impl_ = std::make_shared<Impl>(Impl{.group = group,
                                      .owners = owners,
                                      .shard = std::move(shard),
                                      .sizes = std::move(sizes),
                                      .row_bytes = row_bytes,
                                      .id = id_of_table,
                                      .node = std::move(node),
                                      .exchange = RowExchange(group, options.chunk_bytes),
                                      .id_type = id_type});
}

namespace {

/// A table of `sizes`, once all ranks have agreed on them and none refuses. `make` makes this rank's rows.
ShardedTable make_table(const RankGroup& group, at::IntArrayRef sizes, at::ScalarType dtype,
                        const ShardedOptions& options,
                        const std::function<Table(at::IntArrayRef, const RowOwners&)>& make) {
  begin_table(group, attempt(group, [&] {
                if (sizes.empty() || sizes.front() < 0)
                  throw ShapeError("a table of shape " + text_of(sizes));
                check_options(options);
              }));
  group.require_agreement(facts_of(sizes, dtype, options));
  std::optional<Table> made;
  const auto refusal = attempt(group, [&] {
    const RowOwners owners(options.sharding, sizes.front(), group.size());
    auto mine = sizes.vec();
    mine.front() = owners.rows_of(group.rank());
    made = make(mine, owners);
  });
  throw_refusals(group, refusal);
  return {group, *std::move(made), sizes.front(), options};
}

}  // namespace

ShardedTable ShardedTable::empty(const RankGroup& group, at::IntArrayRef sizes, at::ScalarType dtype,
                                 const ShardedOptions& options) {
  return make_table(group, sizes, dtype, options, [&](at::IntArrayRef mine, const RowOwners&) {
    return Table::empty(mine, dtype, shard_options(options));
  });
}

ShardedTable ShardedTable::filled(const RankGroup& group, at::IntArrayRef sizes, at::ScalarType dtype,
                                  const std::function<Fill(const RowOwners&)>& fill_of,
                                  const ShardedOptions& options) {
  const auto make = [&](at::IntArrayRef mine, const RowOwners& owners) {
    return Table::filled(mine, dtype, fill_of(owners), shard_options(options));
  };
  return make_table(group, sizes, dtype, options, make);
}

ShardedTable ShardedTable::from_array(const RankGroup& group, const at::Tensor& array,
                                      const ShardedOptions& options) {
  at::IntArrayRef sizes = {};  // those of an array that has none are refused
  auto dtype = at::kFloat;
  if (array.defined() && array.layout() == at::kStrided) sizes = array.sizes(), dtype = array.scalar_type();
  const auto make = [&](at::IntArrayRef mine, const RowOwners& owners) {
    std::vector<std::int64_t> rows;
    for (std::int64_t k = 0; k < mine.front(); ++k) rows.push_back(owners.row_of({group.rank(), k}));
    return Table::from_array(gather_rows(array.contiguous(), numbers_at(rows, 0, mine.front())),
                             shard_options(options));
  };
  return make_table(group, sizes, dtype, options, make);
}

/// Starts to receive the headers of an operation, while this rank looks at its own batch.
void ShardedTable::Impl::listen() {
  Exchanging headers_travel(group);
  grow(headers_out, header_bytes() * group.size()), grow(headers_in, header_bytes() * group.size());
  headers.clear();
  each_other(
      [&](int r) { headers.push_back(group.receive(part_of(header(headers_in, r), header_bytes()), r)); });
  headers_travel.whole = true;
}

/// Writes the route's rows as they travel, by rank.
void ShardedTable::Impl::pack_ids() {
  const auto rows = static_cast<std::int64_t>(route.rows.size());
  grow(ids_out, rows * id_bytes());
  if (id_type == at::kLong) {
    std::copy_n(route.rows.data(), rows, static_cast<std::int64_t*>(ids_out.data_ptr()));
  } else {
    std::transform(route.rows.begin(), route.rows.end(), static_cast<std::int32_t*>(ids_out.data_ptr()),
                   [](std::int64_t row) { return static_cast<std::int32_t>(row); });
  }
}

/// Sends each other rank its words and its first row numbers.
void ShardedTable::Impl::send_headers(const std::vector<std::int64_t>& words) {
  std::vector<RankGroup::Transfer> sent;
  each_other([&](int r) {
    auto* const to = header(headers_out, r);
    const auto* mine = words.data() + at_rank(r) * kWords;
    const auto ids = std::min(mine[count], early()) * id_bytes();
    std::memcpy(to, mine, kHeaderBytes);
    std::copy_n(data_of(ids_out) + route.begins[at_rank(r)] * id_bytes(), ids, to + kHeaderBytes);
    sent.push_back(group.send(part_of(to, kHeaderBytes + ids), r));
  });
  for (auto& each : sent) each.wait();
}

/// Returns the words of each rank.
std::vector<std::int64_t> ShardedTable::Impl::receive_headers(const std::vector<std::int64_t>& mine) {
  for (auto& each : headers) each.wait();
  headers.clear();
  auto words = mine;
  each_other(
      [&](int r) { std::memcpy(words.data() + at_rank(r) * kWords, header(headers_in, r), kHeaderBytes); });
  return words;
}

ShardedTable::Impl::Agreed ShardedTable::Impl::agree(Operation what, std::int64_t how,
                                                     const std::exception_ptr& refusal) {
  if (refusal) route.clear(group.size());
  Agreed agreed{route.counts(), std::vector<std::int64_t>(at_rank(group.size()))};
  for (int r = 0; r < group.size(); ++r)  // what it reads by itself does not travel
    if (r == group.rank() || (what == Operation::gather && node.of(r) != nullptr)) agreed.to[at_rank(r)] = 0;
  std::vector<std::int64_t> words;
  for (const auto rows : agreed.to)
    for (const std::int64_t word :
         {id, static_cast<std::int64_t>(what), how, operations, std::int64_t{refusal != nullptr}, rows})
      words.push_back(word);
  Exchanging headers_travel(group);
  ++operations;
  pack_ids();
  send_headers(words);
  const auto said = receive_headers(words);
  headers_travel.whole = true;
  bool any_refused = false;
  for (int r = 0; r < group.size(); ++r)
    any_refused = any_refused || said[at_rank(r) * kWords + refused] != 0;
  for (int r = 0; r < group.size(); ++r) {
    const auto* theirs = said.data() + at_rank(r) * kWords;
    for (const auto& [word, name] : {std::pair{table, "the table, by the number that rank 0 gave it"},
                                     {operation, "the operation"},
                                     {number, "the number of calls so far"},
                                     {detail, "its duplicates"}}) {
      // A rank that refuses may not know its duplicates.
      if (theirs[word] == said[at_rank(word)] || (word == detail && any_refused)) continue;
      const auto value = [which = word](const std::int64_t* words_of) {
        return which == operation ? kOperations[words_of[which]] : std::to_string(words_of[which]);
      };
      throw DisagreementError(std::string("the ranks disagree on ") + name + ": rank 0 has " +
                              value(said.data()) + ", rank " + std::to_string(r) + " has " + value(theirs));
    }
    agreed.from[at_rank(r)] = theirs[count];
  }
  if (any_refused) throw_refusals(group, refusal);
  Exchanging ids_travel(group);
  exchange_ids(agreed);
  ids_travel.whole = true;
  return agreed;
}

/// The input dist: starts to exchange the row numbers that did not fit behind the headers.
void ShardedTable::Impl::exchange_ids(Agreed& agreed) {
  const auto begins = begins_of(agreed.from);
  grow(ids_in, begins.back() * id_bytes());
  const auto each_message = [&](std::byte* ids, std::int64_t rows, auto work) {
    for (auto begin = early() * id_bytes(); begin < rows * id_bytes(); begin += kIdMessage)
      agreed.rest.push_back(work(part_of(ids + begin, std::min(kIdMessage, rows * id_bytes() - begin))));
  };
  each_other([&](int r) {
    const auto rows = agreed.from[at_rank(r)];
    auto* const to = data_of(ids_in) + begins[at_rank(r)] * id_bytes();
    std::copy_n(header(headers_in, r) + kHeaderBytes, std::min(rows, early()) * id_bytes(), to);
    each_message(to, rows, [&](at::Tensor bytes) { return group.receive(std::move(bytes), r); });
  });
  each_other([&](int r) {
    each_message(data_of(ids_out) + route.begins[at_rank(r)] * id_bytes(), agreed.to[at_rank(r)],
                 [&](at::Tensor bytes) { return group.send(std::move(bytes), r); });
  });
  last = {.asked_rows = begins_of(agreed.to).back(), .served_rows = begins.back(), .id_bytes = id_bytes()};
}

/// Returns the rows that other ranks named here, those of rank 0 first.
at::Tensor ShardedTable::Impl::asked_rows(Agreed& agreed) {
  for (auto& each : agreed.rest) each.wait();
  return at::from_blob(ids_in.data_ptr(), {begins_of(agreed.from).back()}, id_type);
}

void ShardedTable::Impl::check_batch(const at::Tensor& numbers, const at::Tensor& rows,
                                     const char* name) const {
  auto flat = sizes;
  flat.front() = numbers.numel();
  const auto shaped = joined_sizes(numbers.sizes(), at::IntArrayRef(sizes).slice(1));
  const bool fits = rows.defined() && (rows.sizes() == shaped || rows.sizes() == flat) &&
                    rows.scalar_type() == shard.dtype();
  if (fits && rows.is_cpu() && rows.is_contiguous()) return;
  throw ShapeError("table " + std::string(c10::toString(shard.dtype())) + " " + text_of(sizes) + ", index " +
                   shape_of(numbers) + " and " + name + " " +
                   (rows.defined() ? layout_of(rows) : "(undefined)") + " do not fit: " + name +
                   " needs one contiguous row of the table's shape and dtype for each index, on the CPU");
}

/// Checks an `out` that check_batch() has found to fit.
void ShardedTable::Impl::check_written(const at::Tensor& numbers, const at::Tensor& out) const {
  check_in_memory(out, "out");
  check_untracked(out, "out");
  check_writable(out, "out");
  const auto bytes = static_cast<std::int64_t>(out.nbytes());
  const kernels::ConstRows written{static_cast<const std::byte*>(out.const_data_ptr()), 1, bytes, bytes};
  check_index_apart(numbers, written, "the index and out");
  if (!shard.memory()->on_host()) return;
  const auto shard_bytes = shard.bytes();
  check_no_overlap({shard.memory()->data(), 1, shard_bytes, shard_bytes}, written, "the shard and out");
}

/// The rows of the batch that this rank reads by itself: its own, and those of its node.
std::int64_t ShardedTable::Impl::near_rows() const {
  auto rows = route.count(group.rank());
  each_other([&](int r) { rows += node.of(r) != nullptr ? route.count(r) : 0; });
  return rows;
}

/// Copies some of these rows, the rank's own first, to their positions.
void ShardedTable::Impl::read_near(std::int64_t first, std::int64_t rows, kernels::Rows out) {
  for (int k = 0; k < group.size(); ++k) {  // no two ranks read from the same one at first
    const auto r = (group.rank() + k) % group.size();
    if (k > 0 && node.of(r) == nullptr) continue;
    const auto begin = std::clamp<std::int64_t>(first, 0, route.count(r));
    const auto end = std::clamp<std::int64_t>(first + rows, 0, route.count(r));
    read_listed(r, begin, end - begin, out);
    first -= route.count(r);
  }
}

/// Copies some rows of a rank's list, which this rank can read, to their positions.
void ShardedTable::Impl::read_listed(int rank, std::int64_t first, std::int64_t rows, kernels::Rows out) {
  if (rows == 0 || row_bytes == 0) return;
  first += route.begins[at_rank(rank)];
  const auto& from = rank == group.rank() ? shard : *node.of(rank);
  if (from.memory()->on_host()) {
    wait_for_gpu(from);
    const kernels::ConstRows table{from.memory()->data(), from.rows(), row_bytes, row_bytes};
    kernels::place_rows(table, route.rows.data() + first, route.positions.data() + first, rows, out,
                        parallel_for);
    return place_repeats(table, route, first, rows, out,
                         [&](std::int64_t row) { return route.rows[static_cast<std::size_t>(row)]; });
  }
  const auto read = gather_rows(shard, numbers_at(route.rows, first, rows), at::kCPU);
  place_received(data_of(read), route, first, rows, out);
}

/// Lookup and output dist. Rows that this rank reads by itself are copied while the others travel.
void ShardedTable::Impl::gather(Agreed agreed, at::Tensor& out) {
  Exchanging rows_travel(group);
  exchange.expect(row_bytes, agreed.from, agreed.to);
  const auto near = near_rows();
  const auto early_near = agreed.rest.empty() ? 0 : near / 8;
  const kernels::Rows places{data_of(out),
                             row_bytes == 0 ? 0 : static_cast<std::int64_t>(out.nbytes()) / row_bytes,
                             row_bytes, row_bytes};
  read_near(0, early_near, places);
  const auto asked = asked_rows(agreed);
  const auto begins = begins_of(agreed.from);
  const auto look_up = [&](int rank, std::int64_t begin, std::int64_t rows, std::byte* to) {
    auto mine = sizes;
    mine.front() = rows;
    auto into = at::from_blob(to, mine, shard.dtype());
    gather_rows(shard, asked.narrow(0, begins[at_rank(rank)] + begin, rows), into);
  };
  const auto place = [&](int rank, std::int64_t begin, std::int64_t rows, const std::byte* from) {
    place_received(from, route, route.begins[at_rank(rank)] + begin, rows, places);
  };
  exchange.move(look_up, place, [&](std::int64_t part, std::int64_t parts) {
    const auto later = near - early_near, begin = later * part / parts;
    read_near(early_near + begin, later * (part + 1) / parts - begin, places);
  });
  rows_travel.whole = true;
  last.chunks = exchange.chunks();
  last.node_rows = near - route.count(group.rank());
  bump_version(out);
}

/// Brings each value to its row's rank. Returns this rank's rows and their values, by rank and then by
/// position.
std::pair<at::Tensor, at::Tensor> ShardedTable::Impl::deliver(const Agreed& agreed, const at::Tensor& asked,
                                                              const at::Tensor& values) {
  Exchanging rows_travel(group);
  const auto here = group.rank();
  const auto own = route.begins[at_rank(here)], own_rows = route.count(here);
  auto from = agreed.from;
  from[at_rank(here)] = own_rows;
  const auto begins = begins_of(from);
  auto shape = sizes;
  shape.front() = begins.back();
  const auto all_bytes = message_bytes(begins.back() * row_bytes);
  std::vector<at::Tensor> places;
  for (int r = 0; r < group.size(); ++r)
    places.push_back(all_bytes.narrow(0, begins[at_rank(r)] * row_bytes, from[at_rank(r)] * row_bytes));
  exchange.expect(row_bytes, agreed.to, agreed.from, places);
  const auto split = begins[at_rank(here)];  // own rows are between those of the ranks before and after
  const auto mine = numbers_at(route.rows, own, own_rows).to(id_type);
  const auto rows = at::cat({asked.narrow(0, 0, split), mine, asked.narrow(0, split, asked.numel() - split)});
  const auto* const given = static_cast<const std::byte*>(values.const_data_ptr());
  const auto pick = [&](std::int64_t first, std::int64_t picked, std::byte* to) {
    for (std::int64_t k = 0; k < picked; ++k, to += row_bytes)
      std::memcpy(to, given + route.positions[static_cast<std::size_t>(first + k)] * row_bytes,
                  static_cast<std::size_t>(row_bytes));
  };
  const auto fill = [&](int rank, std::int64_t begin, std::int64_t picked, std::byte* to) {
    pick(route.begins[at_rank(rank)] + begin, picked, to);
  };
  exchange.move(fill, nullptr, [&](std::int64_t part, std::int64_t parts) {
    const auto begin = own_rows * part / parts;
    pick(own + begin, own_rows * (part + 1) / parts - begin,
         data_of(places[at_rank(here)]) + begin * row_bytes);
  });
  rows_travel.whole = true;
  last.chunks = exchange.chunks();
  return {rows, at::from_blob(
                    all_bytes.data_ptr(), shape, [all_bytes](void*) {}, shard.dtype())};
}

at::Tensor ShardedTable::gather(const RowIndex& index) {
  at::Tensor out;
  impl_->listen();
  const auto refusal = attempt(group(), [&] {
    shard().memory()->check();
    const auto numbers = index.numbers(rows(), at::kCPU);
    impl_->route.find(numbers, owners(), Repeated::once);
    out = new_output(joined_sizes(numbers.sizes(), sizes().slice(1)), at::TensorOptions().dtype(dtype()));
  });
  impl_->gather(impl_->agree(Operation::gather, 0, refusal), out);
  return out;
}

void ShardedTable::gather(const RowIndex& index, at::Tensor& out) {
  impl_->listen();
  const auto refusal = attempt(group(), [&] {
    shard().memory()->check();
    const auto numbers = index.numbers(rows(), at::kCPU);
    impl_->check_batch(numbers, out, "out");
    impl_->check_written(numbers, out);
    impl_->route.find(numbers, owners(), Repeated::once);
  });
  impl_->gather(impl_->agree(Operation::gather, 0, refusal), out);
}

/// The first row that two ranks name, as an error that is the same on each rank; null if there is none.
std::exception_ptr ShardedTable::Impl::repeated(const Agreed& agreed, const at::Tensor& asked) {
  const auto theirs = asked.to(at::kLong);
  const auto* row = theirs.const_data_ptr<std::int64_t>();
  std::vector<std::pair<std::int64_t, int>> named;  // of this rank's rows: by which rank
  for (int r = 0; r < group.size(); ++r)
    for (std::int64_t k = 0; k < agreed.from[at_rank(r)]; ++k) named.emplace_back(*row++, r);
  const auto own = route.begins[at_rank(group.rank())];
  for (std::int64_t k = 0; k < route.count(group.rank()); ++k)
    named.emplace_back(route.rows[static_cast<std::size_t>(own + k)], group.rank());
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

void ShardedTable::refuse_new(const RankGroup& group, const std::string& why) {
  announce_refusal(why, [&](const auto& refusal) { begin_table(group, refusal); });
}

void ShardedTable::refuse(ShardedOperation operation, const std::string& why) {
  impl_->listen();
  announce_refusal(why, [&](const auto& refusal) { impl_->agree(operation, 0, refusal); });
}

void ShardedTable::scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates) {
  impl_->listen();
  at::Tensor given;
  const auto refusal = attempt(group(), [&] {
    shard().require_writable();
    const auto numbers = index.numbers(rows(), at::kCPU);
    given = resolved(values);
    impl_->check_batch(numbers, given, "values");
    if (duplicates == Duplicates::reject) require_distinct(numbers, rows());
    impl_->route.find(numbers, owners(), duplicates == Duplicates::last ? Repeated::last : Repeated::all);
  });
  auto agreed = impl_->agree(Operation::scatter, static_cast<std::int64_t>(duplicates), refusal);
  const auto asked = impl_->asked_rows(agreed);
  if (duplicates == Duplicates::reject)
    if (const auto twice = impl_->repeated(agreed, asked)) std::rethrow_exception(twice);
  const auto [rows, received] = impl_->deliver(agreed, asked, given);
  scatter_rows(shard(), rows, received, duplicates == Duplicates::reject ? Duplicates::none : duplicates);
}

/// The gradients of this rank's rows. @param check refuses for all ranks if it throws
std::pair<at::Tensor, at::Tensor> ShardedTable::Impl::collect(const RowIndex& index, const at::Tensor& grad,
                                                              const std::function<void()>& check) {
  listen();
  at::Tensor given;
  const auto refusal = attempt(group, [&] {
    shard.require_writable();
    const auto numbers = index.numbers(sizes.front(), at::kCPU);
    given = resolved(grad);
    check_batch(numbers, given, "grad");
    check();
    route.find(numbers, owners, Repeated::all);
  });
  auto agreed = agree(Operation::step, 0, refusal);
  const auto asked = asked_rows(agreed);
  return deliver(agreed, asked, given);
}

void ShardedTable::step(SparseRows& optimizer, const RowIndex& index, const at::Tensor& grad) {
  const auto check = [&] {
    if (optimizer.table().sizes() != shard().sizes() || optimizer.table().scalar_type() != dtype() ||
        optimizer.table().const_data_ptr() != shard().host_tensor().const_data_ptr())
      throw ShapeError("the optimizer's table is not this rank's shard; make it over shard().host_tensor()" +
                       of_rank(group()));
  };
  const auto [rows, received] = impl_->collect(index, grad, check);
  optimizer.step(rows, received);
}

std::pair<at::Tensor, at::Tensor> ShardedTable::collect(const RowIndex& index, const at::Tensor& grad) {
  return impl_->collect(index, grad, [] {});
}

const Table& ShardedTable::shard() const { return impl_->shard; }
const RowOwners& ShardedTable::owners() const { return impl_->owners; }
const RankGroup& ShardedTable::group() const { return impl_->group; }
at::IntArrayRef ShardedTable::sizes() const { return impl_->sizes; }
const ExchangeCounts& ShardedTable::last_exchange() const { return impl_->last; }

}  // namespace speedtorch
