#include "benchmarks/memory/holder.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "benchmarks/tables/table_store.h"

namespace stbench {
namespace {

std::vector<Holder>& registered_holders() {
  static std::vector<Holder> all;
  return all;
}

}  // namespace

const std::vector<Holder>& holders() { return registered_holders(); }

const Holder& holder_named(const std::string& name) {
  const auto found = std::ranges::find(registered_holders(), name, &Holder::name);
  if (found == registered_holders().end()) throw std::out_of_range("no holder is called '" + name + "'");
  return *found;
}

RegisterHolder::RegisterHolder(Holder holder) {
  if (!holder.fill) {
    holder.fill = [](const speedtorch::Memory& memory, std::int64_t bytes, std::uint64_t seed) {
      fill_memory(memory, 0, bytes, seed);
    };
  }
  auto& all = registered_holders();
  all.push_back(std::move(holder));
  std::ranges::sort(all, {}, [](const Holder& one) { return std::tuple(one.role, one.name); });
}

}  // namespace stbench
