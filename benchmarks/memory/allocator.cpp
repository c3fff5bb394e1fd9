#include "benchmarks/memory/allocator.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "benchmarks/tables/table_store.h"

namespace stbench {
namespace {

std::vector<TableAllocator>& registered_allocators() {
  static std::vector<TableAllocator> all;
  return all;
}

}  // namespace

const std::vector<TableAllocator>& allocators() { return registered_allocators(); }

const TableAllocator& allocator_named(const std::string& name) {
  const auto found = std::ranges::find(registered_allocators(), name, &TableAllocator::name);
  if (found == registered_allocators().end())
    throw std::out_of_range("no allocator is called '" + name + "'");
  return *found;
}

RegisterAllocator::RegisterAllocator(TableAllocator allocator) {
  if (!allocator.fill) {
    allocator.fill = [](const speedtorch::Memory& memory, std::int64_t bytes, std::uint64_t seed) {
      fill_memory(memory, 0, bytes, seed);
    };
  }
  auto& all = registered_allocators();
  all.push_back(std::move(allocator));
  std::ranges::sort(all, {}, [](const TableAllocator& one) { return std::tuple(one.role, one.name); });
}

}  // namespace stbench
