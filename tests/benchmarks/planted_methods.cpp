/// Methods with one fault each: what a wrong kernel, a forgotten wait or a shortcut would do. They are part
/// of a program of their own, stbench_planted, whose checks must catch every one of them.
#include <ATen/TensorIndexing.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "benchmarks/transfer/method.h"
#include "speedtorch/rows/rows.h"

namespace stbench::planted_methods {
namespace {

using namespace std::chrono_literals;

/// One operation in plain bytes. It shares the tensors, so that what runs late still finds its memory.
struct Move {
  bool to;  ///< from the table into the dense tensor; else the other way
  at::Tensor table, dense;
  std::vector<std::int64_t> index;

  [[nodiscard]] std::size_t rows() const { return index.size(); }
  [[nodiscard]] std::size_t row_bytes() const { return dense.nbytes() / rows(); }
  [[nodiscard]] std::byte* table_row(std::size_t i) const {
    return static_cast<std::byte*>(table.data_ptr()) + static_cast<std::size_t>(index[i]) * row_bytes();
  }
  [[nodiscard]] std::byte* dense_row(std::size_t i) const {
    return static_cast<std::byte*>(dense.data_ptr()) + i * row_bytes();
  }
  [[nodiscard]] const std::byte* source(std::size_t i) const { return to ? table_row(i) : dense_row(i); }
  [[nodiscard]] std::byte* destination(std::size_t i) const { return to ? dense_row(i) : table_row(i); }

  void copy(std::size_t i) const { std::memcpy(destination(i), source(i), row_bytes()); }
  void copy_rows(std::size_t begin, std::size_t end) const {
    for (auto i = begin; i < end; ++i) copy(i);
  }
  void copy_all() const { copy_rows(0, rows()); }
};

std::vector<std::int64_t> rows_of(const at::Tensor& index) {
  const auto wide = index.to(at::kLong);
  const auto* first = wide.const_data_ptr<std::int64_t>();
  return {first, first + wide.numel()};
}

Move to_move(Operands& operands, int set) {
  return {true, operands.table(), operands.model(), rows_of(operands.index(set))};
}

Move from_move(Operands& operands, int set) {
  return {false, operands.table(), operands.values(set), rows_of(operands.index(set))};
}

/// A method that does both directions by the same faulty move, on the host.
Method planted(const std::string& name, const std::function<void(const Move&)>& move) {
  return {.name = name,
          .summary = "planted fault",
          .role = harness::Role::peer,
          .supports = [](const TransferCase& one) { return !one.on_gpu(); },
          .to = [move](Operands& operands, int set) { move(to_move(operands, set)); },
          .from = [move](Operands& operands, int set) { move(from_move(operands, set)); }};
}

const RegisterMethod plain_loop{planted("plain_loop", [](const Move& move) { move.copy_all(); })};

/// Honest methods whose names no list knows.
Method of_role(const std::string& name, harness::Role role) {
  auto method = planted(name, [](const Move& move) { move.copy_all(); });
  method.role = role;
  return method;
}
const RegisterMethod new_libtorch{of_role("new_libtorch", harness::Role::libtorch)};
const RegisterMethod new_ceiling{of_role("new_ceiling", harness::Role::ceiling)};

const RegisterMethod nothing{planted("nothing", [](const Move&) {})};

const RegisterMethod last_row_skipped{
    planted("last_row_skipped", [](const Move& move) { move.copy_rows(0, move.rows() - 1); })};

const RegisterMethod half_done{
    planted("half_done", [](const Move& move) { move.copy_rows(0, move.rows() / 2); })};

const RegisterMethod off_by_one{planted("off_by_one", [](const Move& move) {
  for (std::size_t i = 0; i < move.rows(); ++i)
    std::memcpy(move.destination(i), move.source((i + 1) % move.rows()), move.row_bytes());
})};

const RegisterMethod two_rows_swapped{planted("two_rows_swapped", [](const Move& move) {
  move.copy_rows(0, move.rows() - 2);
  const auto last = move.rows() - 1;
  std::memcpy(move.destination(last), move.source(last - 1), move.row_bytes());
  std::memcpy(move.destination(last - 1), move.source(last), move.row_bytes());
})};

const RegisterMethod too_narrow{planted("too_narrow", [](const Move& move) {
  for (std::size_t i = 0; i < move.rows(); ++i)
    std::memcpy(move.destination(i), move.source(i), move.row_bytes() - 1);
})};

/// One byte more of each row, from the last row to the first, so that no later row repairs it. Bytes past an
/// end of the memory are left alone: the check has to see this, not the operating system.
const RegisterMethod too_wide{planted("too_wide", [](const Move& move) {
  for (auto i = move.rows(); i-- > 0;) {
    const bool inside = i + 1 < move.rows() && move.index[i] + 1 < move.table.size(0);
    std::memcpy(move.destination(i), move.source(i), move.row_bytes() + (inside ? 1 : 0));
  }
})};

/// Each row begins with its second element and ends with its first.
const RegisterMethod column_shift{[] {
  auto method = planted("column_shift", [](const Move& move) {
    const auto shift = static_cast<std::size_t>(move.dense.element_size());
    for (std::size_t i = 0; i < move.rows(); ++i) {
      std::memcpy(move.destination(i), move.source(i) + shift, move.row_bytes() - shift);
      std::memcpy(move.destination(i) + move.row_bytes() - shift, move.source(i), shift);
    }
  });
  method.supports = [](const TransferCase& one) { return !one.on_gpu() && one.dim > 1; };
  return method;
}()};

/// Two buffers taken in the wrong order: the first call is right, each later one delivers the one before it.
class OneBehind {
 public:
  void operator()(const Move& move) {
    std::vector<std::byte> fresh(move.rows() * move.row_bytes());
    for (std::size_t i = 0; i < move.rows(); ++i)
      std::memcpy(fresh.data() + i * move.row_bytes(), move.source(i), move.row_bytes());
    auto& before = before_[move.to ? 0 : 1];
    const auto& stale = before.size() == fresh.size() ? before : fresh;
    for (std::size_t i = 0; i < move.rows(); ++i)
      std::memcpy(move.destination(i), stale.data() + i * move.row_bytes(), move.row_bytes());
    before = std::move(fresh);
  }

 private:
  std::array<std::vector<std::byte>, 2> before_;  ///< of each direction
};

const RegisterMethod stale_buffer{planted(
    "stale_buffer", [one_behind = std::make_shared<OneBehind>()](const Move& move) { (*one_behind)(move); })};

/// Keeps what it moved of each index set, and does not look at the source again. Of what it wrote to the
/// table it assumes that it is still there.
class Replay {
 public:
  void operator()(const Move& move) {
    auto& rows = seen_[{move.to, move.table.data_ptr(), move.row_bytes(), move.index}];
    if (rows.empty()) {
      move.copy_all();
      for (std::size_t i = 0; i < move.rows(); ++i)
        rows.insert(rows.end(), move.source(i), move.source(i) + move.row_bytes());
    } else if (move.to) {
      std::memcpy(move.dense_row(0), rows.data(), rows.size());
    }
  }

 private:
  using Key = std::tuple<bool, const void*, std::size_t, std::vector<std::int64_t>>;
  std::map<Key, std::vector<std::byte>> seen_;
};

const RegisterMethod replays{
    planted("replays", [replay = std::make_shared<Replay>()](const Move& move) { (*replay)(move); })};

/// Writes to the tensor that it was given first, as a recorded sequence of commands does.
const RegisterMethod captures{[] {
  struct First {
    at::Tensor model;
  };
  auto method = planted("captures", [](const Move& move) { move.copy_all(); });
  method.supports = [](const TransferCase& one) { return !one.on_gpu() && one.direction == Direction::to; };
  method.to = [](Operands& operands, int set) {
    auto move = to_move(operands, set);
    move.dense = operands.kept<First>([&] { return First{operands.model()}; }).model;
    move.copy_all();
  };
  return method;
}()};

/// Hands the work to a thread that does it later, and does not wait.
const RegisterMethod missing_synchronise{planted("missing_synchronise", [](const Move& move) {
  static std::vector<std::jthread> workers;  // joined at the end of the process
  workers.emplace_back([move] {
    std::this_thread::sleep_for(300ms);
    move.copy_all();
  });
})};

/// Right twice and then wrong once: a race that is lost now and then.
const RegisterMethod now_and_then{
    planted("now_and_then", [calls = std::make_shared<int>(0)](const Move& move) {
      move.copy_rows(0, move.rows() - (++*calls % 3 == 0 ? 1 : 0));
    })};

const RegisterMethod throws{
    planted("throws", [](const Move&) { throw std::runtime_error("planted failure\nof two lines"); })};

/// One line on stderr when the method is first called, for a test that waits for this.
void announce(const char* name) {
  static std::once_flag once;
  std::call_once(once, [&] { std::fprintf(stderr, "planted: %s has begun\n", name); });
}

const RegisterMethod hangs{planted("hangs", [](const Move&) {
  announce("hangs");
  for (;;) std::this_thread::sleep_for(1h);
})};

/// No fault: the result is right, the time is long.
const RegisterMethod slow{planted("slow", [](const Move& move) {
  announce("slow");
  std::this_thread::sleep_for(50ms);
  move.copy_all();
})};

/// Says at the program's end how often each direction was called, and how often one twice in turn.
struct Calls {
  int to = 0, from = 0, in_turn = 0;
  bool last = false;  ///< from the table
  ~Calls() { std::fprintf(stderr, "planted: counts was called %d %d %d\n", to, from, in_turn); }
};

/// No fault: the result is right, and each call is counted.
const RegisterMethod counts{planted("counts", [](const Move& move) {
  static Calls calls;
  ++(move.to ? calls.to : calls.from);
  if (calls.to + calls.from > 1 && calls.last == move.to) ++calls.in_turn;
  calls.last = move.to;
  move.copy_all();
})};

/// This library's kernels. Before its own rows a gather fetches a share of other rows, which are no more
/// cached than these, so that it is late by that share: STBENCH_PLANTED_LATE says which (0). For
/// scripts/compare-real: what comparisons should find. The other rows have a place of their own: in that of
/// the result they would bring its first rows to the cache, and the gather would be late by less.
const RegisterMethod late{[] {
  auto method = planted("late", [](const Move&) {});
  method.to = [](Operands& operands, int set) {
    const char* share = std::getenv("STBENCH_PLANTED_LATE");
    const double part = share == nullptr ? 0 : std::strtod(share, nullptr);
    const auto& others = operands.index((set + 1) % harness::index_sets);
    const auto rows = static_cast<std::int64_t>(part * static_cast<double>(others.numel()));
    if (rows > 0) {
      static thread_local at::Tensor place;
      const auto like = operands.model().narrow(0, 0, rows);
      const bool fits =
          place.defined() && place.sizes() == like.sizes() && place.options().type_equal(like.options());
      if (!fits) place = at::empty_like(like);
      speedtorch::gather_rows(operands.table(), others.narrow(0, 0, rows), place);
    }
    speedtorch::gather_rows(operands.table(), operands.index(set), operands.model());
  };
  method.from = [](Operands& operands, int set) {
    speedtorch::scatter_rows(operands.table(), operands.index(set), operands.values(set));
  };
  return method;
}()};

/// A result of its own that has a row too few.
const RegisterMethod short_result{[] {
  auto method = planted("short_result", [](const Move& move) { move.copy_all(); });
  method.supports = [](const TransferCase& one) { return !one.on_gpu() && one.direction == Direction::to; };
  method.to = [](Operands& operands, int set) {
    operands.deliver(operands.table()
                         .index({operands.index(set).to(at::kLong)})
                         .narrow(0, 0, operands.model().size(0) - 1));
  };
  return method;
}()};

/// Rows go through one buffer that all callers share: each finds what the last of them left there. The locks
/// keep the bytes whole, not the operations.
class SharedBuffer {
 public:
  void operator()(const Move& move) {
    {
      const std::lock_guard guard(mutex_);
      buffer_.resize(move.rows() * move.row_bytes());
      for (std::size_t i = 0; i < move.rows(); ++i)
        std::memcpy(buffer_.data() + i * move.row_bytes(), move.source(i), move.row_bytes());
    }
    std::this_thread::sleep_for(20ms);
    const std::lock_guard guard(mutex_);
    for (std::size_t i = 0; i < move.rows(); ++i)
      std::memcpy(move.destination(i), buffer_.data() + i * move.row_bytes(), move.row_bytes());
  }

 private:
  std::mutex mutex_;
  std::vector<std::byte> buffer_;
};

const RegisterMethod shared_buffer{
    planted("shared_buffer", [one = std::make_shared<SharedBuffer>()](const Move& move) { (*one)(move); })};

/// Every second of several callers leaves out its last row.
const RegisterMethod every_second_caller{[] {
  struct Number {
    int value;
  };
  auto method = planted("every_second_caller", [](const Move&) {});
  const auto move_all_or_less = [next = std::make_shared<std::atomic<int>>(0)](Operands& operands,
                                                                               const Move& move) {
    const auto number = operands.kept<Number>([&] { return Number{(*next)++}; }).value;
    move.copy_rows(0, move.rows() - (number % 2 == 1 ? 1 : 0));
  };
  method.to = [=](Operands& operands, int set) { move_all_or_less(operands, to_move(operands, set)); };
  method.from = [=](Operands& operands, int set) { move_all_or_less(operands, from_move(operands, set)); };
  return method;
}()};

/// A row that no method of the cell has to touch, nor any row beside it, and that the sampled check leaves
/// out where it can.
std::int64_t row_out_of_the_way(Operands& operands) {
  constexpr std::int64_t sampled_rows = 100'000;
  std::set<std::int64_t> touched;
  for (int set = 0; set < harness::index_sets; ++set) {
    for (const auto row : rows_of(operands.index(set))) touched.insert({row - 1, row, row + 1});
  }
  const auto rows = operands.table().size(0);
  const auto step = std::max<std::int64_t>(1, rows / sampled_rows);
  for (auto row = rows - 2; row > harness::index_sets * operands.model().size(0); --row) {
    if (!touched.contains(row) && (step == 1 || row % step != 0)) return row;
  }
  throw std::logic_error("every row is touched; use more --rows");
}

void damage_a_row(Operands& operands, Move move) {
  move.index.front() = row_out_of_the_way(operands);
  std::memset(move.table_row(0), 0x5A, move.row_bytes());
}

/// The result is right, and a row more is written to. In one placement and direction only, so that the others
/// can be seen to stay clean.
Method planted_in_pageable(const std::string& name, Direction direction) {
  auto method = planted(name, [](const Move& move) { move.copy_all(); });
  method.supports = [direction](const TransferCase& one) {
    return one.placement == speedtorch::Placement::pageable && one.direction == direction;
  };
  const auto to = method.to, from = method.from;
  method.to = [to](Operands& operands, int set) {
    to(operands, set);
    damage_a_row(operands, to_move(operands, set));
  };
  method.from = [from](Operands& operands, int set) {
    from(operands, set);
    damage_a_row(operands, from_move(operands, set));
  };
  return method;
}

const RegisterMethod stray_write{planted_in_pageable("stray_write", Direction::from)};

/// Writes amiss only in the second call, a sample: its checks find nothing.
const RegisterMethod stray_in_a_sample{[] {
  auto method = planted_in_pageable("stray_in_a_sample", Direction::from);
  const auto strays = method.from;
  method.from = [strays, calls = std::make_shared<int>(0)](Operands& operands, int set) {
    if (++*calls == 2) return strays(operands, set);
    from_move(operands, set).copy_all();
  };
  return method;
}()};

/// Writes to the table that it should only read.
const RegisterMethod writes_back{planted_in_pageable("writes_back", Direction::to)};

}  // namespace
}  // namespace stbench::planted_methods
