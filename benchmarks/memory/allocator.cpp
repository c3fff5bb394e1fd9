#include "benchmarks/memory/allocator.h"

#include <algorithm>
#include <tuple>

#include "benchmarks/suite/registry.h"
#include "benchmarks/tables/table_store.h"

namespace stbench {

const std::vector<TableAllocator>& allocators() { return registered<TableAllocator>(); }

const TableAllocator& allocator_named(const std::string& name) { return by_name(allocators(), name); }

RegisterAllocator::RegisterAllocator(TableAllocator allocator) {
  if (!allocator.fill) {
    allocator.fill = [](const speedtorch::Memory& memory, std::int64_t bytes, std::uint64_t seed) {
      fill_memory(memory, 0, bytes, seed);
    };
  }
  auto& all = registered<TableAllocator>();
  all.push_back(std::move(allocator));
  std::ranges::sort(all, {}, [](const TableAllocator& one) { return std::tuple(one.role, one.name); });
}

}  // namespace stbench
