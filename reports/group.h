/// Records in groups: cells, tables, blocks of a table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reports/columns.h"

namespace stbench::reports {

/// Rows of a table.
using Rows = std::vector<const Record*>;

/// Pointers to the elements of a vector, which may be constant.
template <typename Items>
auto pointers_to(Items& items) {
  std::vector<decltype(items.data())> pointers;
  for (auto& item : items) pointers.push_back(&item);
  return pointers;
}

/// The items that `counts` accepts, in their order.
template <typename Item, typename Counts>
std::vector<Item*> those(std::vector<Item*> items, Counts counts) {
  std::erase_if(items, [&](const Item* item) { return !counts(*item); });
  return items;
}

/// Adds a value that is not there yet.
template <typename Values, typename Value>
void add_once(Values& values, const Value& value) {
  if (std::ranges::find(values, value) == values.end()) values.emplace_back(value);
}

/// Groups of equal keys, in the order in which the keys first appear; within a group the order stays.
template <typename Item, typename KeyOf>
std::vector<std::vector<Item*>> group_by(const std::vector<Item*>& items, KeyOf key_of) {
  std::map<decltype(key_of(*items.front())), std::size_t> index_of;
  std::vector<std::vector<Item*>> groups;
  for (Item* const item : items) {
    const auto [position, is_new] = index_of.emplace(key_of(*item), groups.size());
    if (is_new) groups.emplace_back();
    groups[position->second].push_back(item);
  }
  return groups;
}

/// Groups of records that are alike in all of their identity but these parts.
template <typename Item>
std::vector<std::vector<Item*>> group_without(const std::vector<Item*>& records,
                                              std::initializer_list<std::string_view> parts) {
  return group_by(records, [&](const Record& record) { return identity_key(record, parts); });
}

/// The texts that `text_of` makes of the groups, a blank line between them. Empty ones are left out.
template <typename Groups, typename TextOf>
std::string sections(const Groups& groups, TextOf text_of) {
  std::string all;
  for (const auto& group : groups) {
    if (const std::string text = text_of(group); !text.empty()) all += (all.empty() ? "" : "\n") + text;
  }
  return all;
}

}  // namespace stbench::reports
