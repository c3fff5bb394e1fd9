/// Records in groups: cells, tables, blocks of a table.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace stbench::reports {

/// @tparam Item `Record` or `const Record`.
template <typename Item, typename Records>
std::vector<Item*> pointers_to(Records& records) {
  std::vector<Item*> pointers;
  pointers.reserve(records.size());
  for (auto& record : records) pointers.push_back(&record);
  return pointers;
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

}  // namespace stbench::reports
