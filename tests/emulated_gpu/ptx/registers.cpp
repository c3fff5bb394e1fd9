#include "tests/emulated_gpu/ptx/registers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <vector>

namespace emulated_gpu {
namespace {

/// Calls `use(slot, is_written)` for each row that an instruction names.
template <class Use>
void for_each_slot(Code& code, Instruction& in, Use use) {
  for (Slot* slot : {&in.guard, &in.a, &in.b, &in.c, &in.e}) {
    if (*slot != kNoSlot) use(*slot, false);
  }
  if (in.access != kNoSlot) {
    auto& access = code.accesses[in.access];
    for (auto& slot : access.values) {
      if (slot != kNoSlot) use(slot, access.loads && !access.atomic);
    }
  }
  for (Slot* slot : {&in.d, &in.d2}) {
    if (*slot != kNoSlot) use(*slot, true);
  }
}

struct Interval {
  std::uint32_t begin = ~std::uint32_t{0}, end = 0;
  void cover(std::uint32_t position) {
    begin = std::min(begin, position);
    end = std::max(end, position);
  }
};

/// A set of rows, a bit each.
class Rows {
 public:
  explicit Rows(std::size_t rows = 0) : words_((rows + 63) / 64) {}
  bool has(Slot row) const { return (words_[row / 64] >> (row % 64)) & 1; }
  void add(Slot row) { words_[row / 64] |= std::uint64_t{1} << (row % 64); }
  /// Adds those of another set that are not in `except`; whether any was new.
  bool add_all(const Rows& others, const Rows* except = nullptr) {
    std::uint64_t changed = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto added = others.words_[i] & ~(except != nullptr ? except->words_[i] : 0) & ~words_[i];
      words_[i] |= added;
      changed |= added;
    }
    return changed != 0;
  }
  template <class Use>
  void for_each(Use use) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (auto word = words_[i]; word != 0; word &= word - 1) {
        use(static_cast<Slot>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))));
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// A run of instructions that only its end leaves and only its begin enters.
struct Stretch {
  std::uint32_t begin = 0, end = 0;
  std::vector<std::uint32_t> next;
  Rows killed, live_in, live_out;
};

bool goes_on(const Instruction& in) {
  if (in.guard != kNoSlot) return true;
  return in.flow != Flow::branch && in.flow != Flow::exit && in.flow != Flow::trap;
}

std::vector<Stretch> split(const Code& code) {
  const auto count = static_cast<std::uint32_t>(code.instructions.size());
  std::vector<bool> begins(count + 1, false);
  begins[0] = true;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& in = code.instructions[i];
    if (in.flow == Flow::branch) begins[in.target] = true;
    if (in.flow == Flow::branch || in.flow == Flow::exit) begins[i + 1] = true;
  }
  std::vector<Stretch> stretches;
  std::vector<std::uint32_t> stretch_of(count + 1, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (begins[i]) stretches.emplace_back().begin = i;
    stretches.back().end = i;
    stretch_of[i] = static_cast<std::uint32_t>(stretches.size() - 1);
  }
  for (auto& stretch : stretches) {
    const auto& last = code.instructions[stretch.end];
    if (goes_on(last) && stretch.end + 1 < count) stretch.next.push_back(stretch_of[stretch.end + 1]);
    if (last.flow == Flow::branch && last.target < count) stretch.next.push_back(stretch_of[last.target]);
  }
  return stretches;
}

void find_live(Code& code, std::vector<Stretch>& stretches, std::size_t rows) {
  for (auto& stretch : stretches) {
    for (auto* set : {&stretch.killed, &stretch.live_in, &stretch.live_out}) *set = Rows(rows);
    for (auto i = stretch.begin; i <= stretch.end; ++i) {
      auto& in = code.instructions[i];
      for_each_slot(code, in, [&](Slot slot, bool is_written) {
        if (!is_written && !stretch.killed.has(slot)) stretch.live_in.add(slot);
        if (is_written && in.guard == kNoSlot) stretch.killed.add(slot);
      });
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (auto at = stretches.rbegin(); at != stretches.rend(); ++at) {
      for (const auto next : at->next) changed |= at->live_out.add_all(stretches[next].live_in);
      at->live_in.add_all(at->live_out, &at->killed);
    }
  }
}

std::vector<Interval> intervals_of(Code& code, std::size_t rows) {
  auto stretches = split(code);
  find_live(code, stretches, rows);
  std::vector<Interval> intervals(rows);
  for (const auto& stretch : stretches) {
    stretch.live_in.for_each([&](Slot row) { intervals[row].cover(stretch.begin); });
    stretch.live_out.for_each([&](Slot row) { intervals[row].cover(stretch.end); });
    for (auto i = stretch.begin; i <= stretch.end; ++i) {
      for_each_slot(code, code.instructions[i], [&](Slot slot, bool) { intervals[slot].cover(i); });
    }
  }
  return intervals;
}

constexpr std::size_t kLine = 64;

std::size_t bytes_of_row(unsigned bytes) { return bytes == 0 ? sizeof(Mask) : std::size_t{bytes} * kLanes; }

/// Offsets of rows; rows of one size whose intervals do not meet share one.
class Offsets {
 public:
  explicit Offsets(std::size_t rows) : offsets_(rows, kNoSlot) {}

  Slot take(unsigned bytes) {
    const auto size = bytes_of_row(bytes);
    if (size >= kLine) next_ = (next_ + kLine - 1) / kLine * kLine;
    const auto offset = static_cast<Slot>(next_);
    next_ += size;
    return offset;
  }
  void share(const std::vector<Row>& rows, const std::vector<Interval>& intervals) {
    std::vector<Slot> order;
    for (Slot row = 0; row < rows.size(); ++row) {
      if (!rows[row].fixed && intervals[row].begin <= intervals[row].end) order.push_back(row);
    }
    std::sort(order.begin(), order.end(),
              [&](Slot a, Slot b) { return intervals[a].begin < intervals[b].begin; });
    std::multimap<std::uint32_t, Slot> active;  // by end
    std::array<std::vector<Slot>, 9> free;
    for (const auto row : order) {
      while (!active.empty() && active.begin()->first < intervals[row].begin) {
        const auto ended = active.begin()->second;
        free.at(rows[ended].bytes).push_back(offsets_[ended]);
        active.erase(active.begin());
      }
      auto& of_size = free.at(rows[row].bytes);
      if (of_size.empty()) {
        offsets_[row] = take(rows[row].bytes);
      } else {
        offsets_[row] = of_size.back();
        of_size.pop_back();
      }
      active.emplace(intervals[row].end, row);
    }
  }
  Slot& operator[](Slot row) { return offsets_[row]; }
  std::size_t bytes() const { return (next_ + kLine - 1) / kLine * kLine; }

 private:
  std::vector<Slot> offsets_;
  std::size_t next_ = 0;
};

}  // namespace

void assign_registers(Code& code, const std::vector<Row>& rows) {
  Offsets offsets(rows.size());
  offsets.share(rows, intervals_of(code, rows.size()));
  for (Slot row = 0; row < rows.size(); ++row) {
    if (rows[row].fixed) offsets[row] = offsets.take(rows[row].bytes);
  }
  for (auto& in : code.instructions) {
    for_each_slot(code, in, [&](Slot& slot, bool) { slot = offsets[slot]; });
  }
  for (auto& constant : code.constants) constant.slot = offsets[constant.slot];
  for (auto& special : code.specials) special.slot = offsets[special.slot];
  code.register_bytes = offsets.bytes();
}

}  // namespace emulated_gpu
