/// The role of a method in comparisons: the column `role` of its records.
#pragma once

#include <string_view>

#include "reports/record.h"

namespace stbench::reports {

/// Ours and peers are compared with the fastest method of `libtorch` and with the fastest ceiling of their
/// cell.
enum class Role { ours, libtorch, ceiling, peer };

std::string_view to_string(Role role);

/// The role that the record names. A record without one is from a report older than schema 1.4: its role
/// follows from the method's name (roles_before_1_4.inc). A text that is no role means `peer`.
Role role_of(const Record& record);

inline bool is_libtorch(const Record& record) { return role_of(record) == Role::libtorch; }
inline bool is_ceiling(const Record& record) { return role_of(record) == Role::ceiling; }

/// Writes the column, as the first of the plain ones.
void set_role(Record& record, Role role);

}  // namespace stbench::reports
