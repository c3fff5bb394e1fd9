#include "reports/compare/side_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "reports/group.h"
#include "reports/style.h"

namespace stbench::reports {
namespace {

/// The revision that the program of a report was built from; empty if the report does not say.
std::string revision_of(const Report& report) {
  constexpr std::size_t kEnough = 12;
  const auto build = report.environment.find("build");
  if (build == report.environment.end() || !build->is_object()) return {};
  const auto revision = build->find("git_revision"), dirty = build->find("git_dirty");
  if (revision == build->end() || !revision->is_string()) return {};
  const bool changed = dirty != build->end() && dirty->is_boolean() && dirty->get<bool>();
  return one_line(revision->get<std::string>()).substr(0, kEnough) + (changed ? " (changed)" : "");
}

}  // namespace

std::string side_text(std::string_view side, std::span<const Report> reports) {
  std::vector<std::string> revisions, parts;
  for (const Report& report : reports) {
    if (const std::string revision = revision_of(report); !revision.empty()) add_once(revisions, revision);
  }
  if (!revisions.empty()) parts.push_back(fmt::format("revision {}", fmt::join(revisions, " and ")));
  if (!reports.empty() && !reports.front().started_at.empty()) parts.push_back(reports.front().started_at);
  parts.push_back(fmt::format("{} {}", reports.size(), reports.size() == 1 ? "process" : "processes"));
  return fmt::format("{}: {}", side, fmt::join(parts, ", "));
}

}  // namespace stbench::reports
