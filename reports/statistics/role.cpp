#include "reports/statistics/role.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace stbench::reports {
namespace {

constexpr std::string_view role_column = "role";
constexpr std::array<std::string_view, 4> role_names = {"ours", "libtorch", "ceiling", "peer"};

constexpr std::pair<Role, std::string_view> roles_before_1_4[] = {
#include "reports/statistics/roles_before_1_4.inc"
};

Role role_before_1_4(std::string_view method) {
  if (method.starts_with("speedtorch_")) return Role::ours;  // with a budget of multiprocessors
  const auto word = " " + std::string(method) + " ";
  for (const auto& [role, names] : roles_before_1_4) {
    if (names.find(word) != std::string_view::npos) return role;
  }
  return Role::peer;
}

}  // namespace

std::string_view to_string(Role role) { return role_names.at(static_cast<std::size_t>(role)); }

Role role_of(const Record& record) {
  const Value* const value = find(record.more, role_column);
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  if (text == nullptr) return role_before_1_4(record.id.method);
  const auto* const name = std::ranges::find(role_names, *text);
  return name == role_names.end() ? Role::peer : static_cast<Role>(name - role_names.begin());
}

void set_role(Record& record, Role role) {
  std::erase_if(record.more, [](const auto& cell) { return cell.first == role_column; });
  record.more.emplace(record.more.begin(), role_column, std::string(to_string(role)));
}

}  // namespace stbench::reports
