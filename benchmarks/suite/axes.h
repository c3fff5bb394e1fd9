/// Values of axes, and their combinations, for the plans of suites.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reports/group.h"

namespace stbench {

using reports::add_once;

/// The values that the user gave, else the standard ones.
template <class T>
std::vector<T> given_or(const std::vector<T>& given, std::vector<T> standard) {
  return given.empty() ? standard : given;
}

inline bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// @throws UsageError if the name is none of those known, with the nearest that is
void require_known(const std::string& name, const std::string& option, const std::vector<std::string>& known);

/// @throws UsageError if a value is below 1, naming its option
void require_positive(std::initializer_list<std::pair<const char*, std::int64_t>> values);

/// Each case of `all` once with each of the values, in order: the axis that is crossed first is outermost.
/// @param values a range, or a function of the case that returns one
/// @param axis a data member of the case, or a function (case, value) that sets the value
template <class Case, class Values, class Axis>
void cross(std::vector<Case>& all, const Values& values, Axis axis) {
  std::vector<Case> crossed;
  const auto add = [&](const Case& one, const auto& choices) {
    for (const auto& value : choices) {
      crossed.push_back(one);
      if constexpr (std::is_member_object_pointer_v<Axis>) {
        crossed.back().*axis = value;
      } else {
        axis(crossed.back(), value);
      }
    }
  };
  for (const auto& one : all) {
    if constexpr (std::is_invocable_v<Values, const Case&>) {
      add(one, values(one));
    } else {
      add(one, values);
    }
  }
  all = std::move(crossed);
}

}  // namespace stbench
