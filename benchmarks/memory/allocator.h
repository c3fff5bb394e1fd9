/// Methods of the memory suite: allocators of a table's memory. Ours and LibTorch's run in a child of this
/// program, peers in their own process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/benchmark_case.h"
#include "speedtorch/memory/memory.h"

namespace stbench {

struct TableAllocator {
  std::string name;
  std::string summary;  ///< one line for `list`
  harness::Role role;
  std::vector<std::string> placements;  ///< that it can allocate in
  bool asked_only = false;              ///< planned only if --peers or --method names it
  /// Bytes that it takes for a table of `bytes` bytes, as far as known in advance.
  std::function<std::int64_t(const std::string& placement, std::int64_t bytes)> needs =
      [](const std::string&, std::int64_t bytes) { return bytes; };

  /// The memory of one table. @throws speedtorch::MemoryError, speedtorch::PlacementError
  using Allocate = std::function<std::shared_ptr<speedtorch::Memory>(speedtorch::Placement placement,
                                                                     std::int64_t bytes, at::Device device)>;
  Allocate allocate;  ///< empty: the peer of its name allocates
  /// Writes the seed's fill into the first `bytes` bytes.
  std::function<void(const speedtorch::Memory& memory, std::int64_t bytes, std::uint64_t seed)> fill;
};

/// All allocators: ours, LibTorch's, peers.
const std::vector<TableAllocator>& allocators();

/// @throws std::out_of_range for a name that the command line would refuse.
const TableAllocator& allocator_named(const std::string& name);

struct RegisterAllocator {
  explicit RegisterAllocator(TableAllocator allocator);
};

}  // namespace stbench
