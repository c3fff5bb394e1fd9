#include "reports/tables/notes.h"

#include <fmt/format.h>

#include <tuple>

#include "reports/group.h"

namespace stbench::reports {
namespace {

std::string reason_for(const Record& record) {
  return record.reason.empty() ? "no reason given" : record.reason;
}

/// The rows' names, or their number if they are many.
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
std::string lines_of_status(const Rows& rows, Status status, std::string_view mark, Paint paint,
                            Style style) {
  constexpr std::size_t kEnough = 4;
  const Rows chosen = those(rows, [&](const Record& row) { return row.status == status; });
  std::string text;
  std::size_t lines = 0, left_out = 0;
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

/// The unmeasured part of one device: its placements, after the method if the reason is one method's alone.
std::string waived_subject(const Rows& rows) {
  std::vector<std::string> placements, methods;
  for (const Record* row : rows) {
    add_once(placements, row->id.placement);
    add_once(methods, row->id.method);
  }
  std::erase(placements, ""), std::erase(methods, "");
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
  return lines_of(fmt::format("  {}", text), indent, paint, style);
}

std::string reason_lines(const Rows& rows, Style style) {
  return lines_of_status(rows, Status::wrong, "WRONG", Paint::bad, style) +
         lines_of_status(rows, Status::failed, "failed", Paint::bad, style) +
         lines_of_status(rows, Status::unstable, "~", Paint::doubtful, style);
}

std::string waived_lines(const Report& report, Style style) {
  const auto is_waived = [](const Record& record) { return record.status == Status::waived; };
  const Rows waived = those(pointers_to(report.records), is_waived);
  if (waived.empty()) return {};
  std::string text = "Not measured here:\n";
  const auto key = [](const Record& r) { return std::tuple(r.id.suite, r.id.device, reason_for(r)); };
  for (const Rows& group : group_by(waived, key)) {
    text += paragraph(waived_subject(group) + ": " + reason_for(*group.front()), 4, Paint::none, style);
  }
  return text;
}

}  // namespace stbench::reports
