#include "reports/files/case_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

#include "reports/columns.h"
#include "reports/error.h"
#include "reports/style.h"
#include "reports/tables/notes.h"

namespace stbench::reports {
namespace {

using Side = std::vector<const Record*> JoinedCase::*;

/// Axes that say something, by name, so that their order in a file does not matter.
Columns telling_axes(const Columns& axes) {
  Columns telling;
  for (const auto& axis : axes) {
    const Value* const standard = find(known_axes(), axis.first);
    if (standard == nullptr || *standard != axis.second) telling.push_back(axis);
  }
  std::sort(telling.begin(), telling.end());
  return telling;
}

std::string key_of(Identity id, std::initializer_list<std::string_view> without) {
  Record record;
  id.axes = telling_axes(id.axes);
  record.id = std::move(id);
  return identity_key(record, without);
}

class Joiner {
 public:
  Joiner(std::size_t base, std::size_t now) : base_(base), now_(now) {}

  void add(const Report& report, Side side, std::size_t number) {
    require_distinct(report, "a report");
    for (const Record& record : report.records)
      (case_of(join_key(record.id), record.id).*side)[number] = &record;
  }

  std::vector<JoinedCase> take() { return std::move(cases_); }

 private:
  JoinedCase& case_of(const std::string& key, const Identity& id) {
    const auto [position, is_new] = index_of_.emplace(key, cases_.size());
    if (is_new) cases_.push_back({id, std::vector<const Record*>(base_), std::vector<const Record*>(now_)});
    return cases_[position->second];
  }

  std::size_t base_, now_;
  std::map<std::string, std::size_t> index_of_;
  std::vector<JoinedCase> cases_;
};

}  // namespace

std::vector<const Record*> JoinedCase::measured() const {
  std::vector<const Record*> measured;
  for (const auto* side : {&base, &now}) {
    std::ranges::copy_if(*side, std::back_inserter(measured), [](const Record* record) {
      return record != nullptr && has_numbers(record->status) && record->median_s;
    });
  }
  return measured;
}

std::string join_key(const Identity& id) { return key_of(id, {}); }

std::string cell_key(const Identity& id) { return key_of(id, {"method"}); }

void require_distinct(const Report& report, std::string_view name) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Identity& id = report.records[i].id;
    const auto [first, is_new] = seen.emplace(join_key(id), i);
    if (!is_new)
      throw ReportError(fmt::format("cases {} and {} of {} are the same case ({}); once would be right",
                                    first->second + 1, i + 1, name,
                                    shortened(one_line(who(id)), kScreenWidth / 2)));
  }
}

std::vector<JoinedCase> join_cases(std::span<const Report> base, std::span<const Report> now) {
  Joiner joiner(base.size(), now.size());
  for (std::size_t i = 0; i < base.size(); ++i) joiner.add(base[i], &JoinedCase::base, i);
  for (std::size_t i = 0; i < now.size(); ++i) joiner.add(now[i], &JoinedCase::now, i);
  return joiner.take();
}

}  // namespace stbench::reports
