#include "reports/record.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "reports/error.h"
#include "reports/style.h"

namespace stbench::reports {
namespace {

constexpr std::array<std::string_view, 5> kStatusNames = {"ok", "unstable", "waived", "wrong", "failed"};

}  // namespace

std::string_view to_string(Status status) { return kStatusNames.at(static_cast<std::size_t>(status)); }

Status status_from(std::string_view text) {
  const auto* const name = std::find(kStatusNames.begin(), kStatusNames.end(), text);
  if (name == kStatusNames.end()) {
    constexpr std::size_t kShown = 40;
    throw ReportError("\"" + shortened(one_line(text.substr(0, kShown)), kShown) +
                      "\" is no status: ok, unstable, waived, wrong or failed");
  }
  return static_cast<Status>(name - kStatusNames.begin());
}

Status worse(Status a, Status b) { return std::max(a, b); }

bool has_numbers(Status status) { return status == Status::ok || status == Status::unstable; }

bool Identity::same_cell(const Identity& other) const {
  const auto all_but_method = [](const Identity& id) {
    return std::tie(id.suite, id.direction, id.placement, id.device, id.dtype, id.index_dtype,
                    id.distribution, id.rows, id.dim, id.batch, id.cores, id.axes);
  };
  return all_but_method(*this) == all_but_method(other);
}

const Value* find(const Columns& columns, std::string_view name) {
  const auto named = std::ranges::find(columns, name, &Columns::value_type::first);
  return named == columns.end() ? nullptr : &named->second;
}

void set(Columns& columns, std::string_view name, Value value) {
  const auto named = std::ranges::find(columns, name, &Columns::value_type::first);
  if (named == columns.end()) {
    columns.emplace_back(name, std::move(value));
  } else {
    named->second = std::move(value);
  }
}

Record unmeasured(const Identity& id, Status status, std::string_view reason) {
  Record record;
  record.id = id;
  record.status = status;
  record.reason = one_line(reason);
  return record;
}

}  // namespace stbench::reports
