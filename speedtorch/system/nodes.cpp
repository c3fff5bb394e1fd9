#include "speedtorch/system/nodes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "speedtorch/system/pages.h"
#include "speedtorch/system/system_files.h"

namespace speedtorch {
namespace {

/// Pages to sample, by a call of about 10 us. Finds the borders of ranges to within 1/256 of the table.
constexpr std::int64_t kSampledPages = 256;

/// The number of consecutive pages that must follow in turn to count as interleaved, and the maximum number
/// of ranges of a table.
constexpr std::int64_t kPagesInTurn = 16;
constexpr std::size_t kMostRanges = 16;

/// Smaller movements ignore the nodes: finding the owners and sorting the index takes about 100 us.
constexpr std::int64_t kByNodeBytes = std::int64_t{8} << 20;

/// The node of each page, as an index into `nodes`; empty if one is unknown.
std::vector<int> ask(std::span<void* const> pages, const Nodes& nodes, AskNodes ask_nodes) {
  std::vector<int> found(pages.size());
  if (!ask_nodes(pages, found)) return {};
  for (int& node : found) {
    const auto known = std::find(nodes.numbers.begin(), nodes.numbers.end(), node);
    if (known == nodes.numbers.end()) return {};
    node = static_cast<int>(known - nodes.numbers.begin());
  }
  return found;
}

void* page_of(const std::byte* address) { return const_cast<std::byte*>(address); }

/// Ranges that end halfway between two sampled rows of different nodes; empty if there are too many.
std::vector<kernels::OwnedRows> ranges_between(std::span<const std::int64_t> rows,
                                               std::span<const int> owners, std::int64_t end) {
  std::vector<kernels::OwnedRows> ranges;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (owners[i] != owners[i - 1]) ranges.push_back({(rows[i - 1] + rows[i]) / 2 + 1, owners[i - 1]});
    if (ranges.size() == kMostRanges) return {};
  }
  ranges.push_back({end, owners.back()});
  return ranges;
}

/// Returns the owners if the pages from the table's start on are interleaved over all nodes.
std::optional<kernels::RowOwners> find_turns(kernels::ConstRows table, std::int64_t page_bytes,
                                             const Nodes& nodes, AskNodes ask_nodes) {
  if (table.rows * table.stride_bytes < (kPagesInTurn + 1) * page_bytes) return std::nullopt;
  std::vector<void*> pages;
  for (std::int64_t k = 0; k < kPagesInTurn; ++k) pages.push_back(page_of(table.data + k * page_bytes));
  const auto owners = ask(pages, nodes, ask_nodes);
  if (owners.empty()) return std::nullopt;
  for (std::size_t k = 0; k < owners.size(); ++k) {
    if (owners[k] != (owners[0] + static_cast<int>(k)) % nodes.count()) return std::nullopt;
  }
  const auto first_byte =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(table.data)) % page_bytes;
  return kernels::RowOwners::interleaved(nodes.count(), owners[0], first_byte, table.stride_bytes,
                                         page_bytes);
}

}  // namespace

Nodes read_nodes(const std::filesystem::path& root) {
  const SystemFiles files(root);
  const std::string folder = "/sys/devices/system/node/";
  const auto list = [&](const std::string& path) {
    return number_list(files.first_line(folder + path).value_or(""));
  };
  Nodes nodes;
  nodes.numbers = list("has_memory");
  for (std::size_t node = 0; node < nodes.numbers.size(); ++node) {
    for (const int cpu : list("node" + std::to_string(nodes.numbers[node]) + "/cpulist")) {
      const auto place = static_cast<std::size_t>(cpu);
      if (nodes.node_of_cpu.size() <= place) nodes.node_of_cpu.resize(place + 1, -1);
      nodes.node_of_cpu[place] = static_cast<int>(node);
    }
  }
  if (nodes.numbers.empty()) nodes.numbers = {0};
  return nodes;
}

bool ask_nodes(std::span<void* const> pages, std::span<int> node_numbers) {
  // By the system call itself, because libnuma would be a further dependency for a single call.
  return ::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, node_numbers.data(), 0) == 0;
}

std::optional<kernels::RowOwners> find_owners(kernels::ConstRows table, const Nodes& nodes,
                                              AskNodes ask_nodes) {
  if (nodes.count() < 2 || table.rows < 2) return std::nullopt;
  const std::int64_t samples = std::min(kSampledPages, table.rows);
  std::vector<std::int64_t> rows;
  std::vector<void*> pages;
  for (std::int64_t k = 0; k < samples; ++k) {
    rows.push_back(k * (table.rows - 1) / (samples - 1));
    pages.push_back(page_of(table.data + rows.back() * table.stride_bytes));
  }
  const auto owners = ask(pages, nodes, ask_nodes);
  if (owners.empty() ||
      std::all_of(owners.begin(), owners.end(), [&](int one) { return one == owners[0]; })) {
    return std::nullopt;
  }
  auto ranges = ranges_between(rows, owners, table.rows);
  if (!ranges.empty()) return kernels::RowOwners::ranges(nodes.count(), std::move(ranges));
  for (const std::int64_t page_bytes : {std::int64_t{::sysconf(_SC_PAGESIZE)}, kHugePageBytes}) {
    if (auto turns = find_turns(table, page_bytes, nodes, ask_nodes)) return turns;
  }
  return std::nullopt;
}

std::optional<NodePlan> plan_by_node(kernels::ConstRows table, std::int64_t bytes, const Nodes& nodes,
                                     std::span<const int> cpus, AskNodes ask_nodes) {
  if (nodes.count() < 2 || bytes < kByNodeBytes) return std::nullopt;
  std::vector<int> node_of_thread;
  for (const int cpu : cpus) {
    const auto place = static_cast<std::size_t>(cpu);
    node_of_thread.push_back(place < nodes.node_of_cpu.size() ? nodes.node_of_cpu[place] : -1);
  }
  const auto [least, most] = std::minmax_element(node_of_thread.begin(), node_of_thread.end());
  if (node_of_thread.empty() || *least == *most) return std::nullopt;
  auto owners = find_owners(table, nodes, ask_nodes);
  if (!owners) return std::nullopt;
  return NodePlan{std::move(*owners), std::move(node_of_thread)};
}

}  // namespace speedtorch
