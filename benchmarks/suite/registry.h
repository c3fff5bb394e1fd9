/// Objects that files register at start-up, such as suites and methods, and their names.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace stbench {

/// All objects of a type. Local to a function, because files register in any order.
template <class T>
std::vector<T>& registered() {
  static std::vector<T> all;
  return all;
}

/// Adds one behind those whose names come before its.
template <class T>
void add_by_name(T one) {
  auto& all = registered<T>();
  const auto place = std::ranges::lower_bound(all, one.name, {}, &T::name);
  all.insert(place, std::move(one));
}

/// The object of this name. @throws std::out_of_range for a name that the command line would refuse
template <class T>
const T& by_name(const std::vector<T>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &T::name);
  if (found == all.end()) throw std::out_of_range("nothing is called '" + name + "'");
  return *found;
}

template <class T>
std::vector<std::string> names_of(const std::vector<T>& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(one.name);
  return names;
}

}  // namespace stbench
