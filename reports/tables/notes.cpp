#include "reports/tables/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "reports/group.h"

namespace stbench::reports {
namespace {

using Rows = std::vector<const Record*>;

std::string reason_for(const Record& record) {
  return record.reason.empty() ? "no reason given" : record.reason;
}

/// The rows' names, or their number where they are many.
std::string names_of(const Rows& rows) {
  constexpr std::size_t kNamed = 6;
  if (rows.size() > kNamed) return fmt::format("{} rows", rows.size());
  std::vector<std::string> names;
  for (const Record* row : rows) {
    const auto cores = row->id.cores > 0 ? " " + cores_text(row->id.cores) : std::string();
    names.push_back(who(row->id) + cores);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The rows of one status, grouped by reason; `mark` is what the table shows at the row.
std::string lines_of(const Rows& rows, Status status, std::string_view mark, Paint paint, Style style) {
  constexpr std::size_t kEnough = 4;
  Rows chosen;
  for (const Record* row : rows) {
    if (row->status == status) chosen.push_back(row);
  }
  std::string text;
  std::size_t lines = 0;
  std::size_t left_out = 0;
  for (const Rows& group : group_by(chosen, reason_for)) {
    if (++lines > kEnough) {
      left_out += group.size();
      continue;
    }
    const std::string line = fmt::format("{} {}: {}", mark, names_of(group), reason_for(*group.front()));
    text += paragraph(line, 4, paint, style);
  }
  if (left_out > 0) text += fmt::format("  {} and {} more; the report has their reasons\n", mark, left_out);
  return text;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

/// The part of one device that could not be measured: its placements, after the method where the reason is
/// one method's alone.
std::string waived_subject(const Rows& rows) {
  std::vector<std::string> placements;
  std::vector<std::string> methods;
  for (const Record* row : rows) {
    add_once(placements, row->id.placement);
    add_once(methods, row->id.method);
  }
  const std::string method = methods.size() == 1 ? fmt::format("{} of ", methods.front()) : "";
  const std::string& device = rows.front()->id.device;
  return fmt::format("{}{}{}{}", method, fmt::join(placements, ", "), device.empty() ? "" : " on ", device);
}

}  // namespace

std::string who(const Identity& id) {
  if (id.method.empty() || id.placement.empty()) return id.method + id.placement;
  return fmt::format("{}({})", id.method, id.placement);
}

std::string paragraph(std::string_view text, std::size_t indent, Paint paint, Style style) {
  std::string result;
  for (const std::string& line : wrapped("  " + one_line(text), kScreenWidth, indent)) {
    result += painted(line, paint, style) + "\n";
  }
  return result;
}

std::string reason_lines(const Rows& rows, Style style) {
  return lines_of(rows, Status::wrong, "WRONG", Paint::bad, style) +
         lines_of(rows, Status::failed, "failed", Paint::bad, style) +
         lines_of(rows, Status::unstable, "~", Paint::doubtful, style);
}

std::string waived_lines(const Report& report, Style style) {
  Rows waived;
  for (const Record& record : report.records) {
    if (record.status == Status::waived) waived.push_back(&record);
  }
  if (waived.empty()) return {};
  std::string text = "Not measured here:\n";
  const auto key = [](const Record& r) { return std::tuple(r.id.suite, r.id.device, reason_for(r)); };
  for (const Rows& group : group_by(waived, key)) {
    text += paragraph(waived_subject(group) + ": " + reason_for(*group.front()), 4, Paint::none, style);
  }
  return text;
}

}  // namespace stbench::reports
