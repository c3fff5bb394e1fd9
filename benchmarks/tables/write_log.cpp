#include "benchmarks/tables/write_log.h"

#include <algorithm>

namespace stbench {

void WriteLog::write(Pattern pattern, int set, std::uint64_t generation) {
  writes_[number(pattern, set)] = {generation, ++turns_};
  fresh_ = fresh_ || generation != 0;
}

std::uint64_t WriteLog::generation_of(std::int64_t row) const {
  return fresh_ ? last_write(row).generation : 0;
}

bool WriteLog::is_written(std::int64_t row) const { return turns_ > 0 && last_write(row).turn > 0; }

WriteLog::Write WriteLog::last_write(std::int64_t row) const {
  const auto named = std::ranges::lower_bound(named_, row, {}, &Named::row);
  Write last;
  if (named == named_.end() || named->row != row) return last;
  for (std::size_t set = 0; set < count; ++set) {
    if ((named->sets >> set & 1U) != 0 && writes_[set].turn > last.turn) last = writes_[set];
  }
  return last;
}

std::vector<std::int64_t> WriteLog::written_rows() {
  index();
  std::vector<std::int64_t> rows;
  for (const auto& named : named_) {
    if (is_written(named.row)) rows.push_back(named.row);
  }
  return rows;
}

void WriteLog::index() {
  if (!named_.empty()) return;
  for (std::size_t set = 0; set < count; ++set) {
    for (const auto row : rows_of(set)) named_.push_back({row, std::uint32_t{1} << set});
  }
  std::ranges::sort(named_, {}, &Named::row);
  std::size_t kept = 0;
  for (const auto& named : named_) {
    if (kept > 0 && named_[kept - 1].row == named.row) {
      named_[kept - 1].sets |= named.sets;
    } else {
      named_[kept++] = named;
    }
  }
  named_.resize(kept);
}

void WriteLog::clear() {
  writes_ = {};
  turns_ = 0;
  fresh_ = false;
}

}  // namespace stbench
