#include "speedtorch/sharded/node_shards.h"

#include <unistd.h>

#include <filesystem>
#include <random>
#include <system_error>

#include "speedtorch/sharded/agreement.h"
#include "speedtorch/system/system_files.h"

namespace speedtorch {
namespace {

/// A name for a SharedTable that no other has.
std::string unused_name() {
  std::random_device random;
  return "shard " + std::to_string(random()) + " " + std::to_string(random());
}

/// The same text for processes that can hand each other memory: on one host, in one network namespace, where
/// their sockets have their names, and of one user. `otherwise` if the system does not say.
std::string node_id(const std::string& otherwise) {
  std::error_code unknown;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", unknown);
  const auto host = host_start_id();
  if (unknown || !host) return otherwise;
  return *host + " " + network.string() + " " + std::to_string(::geteuid());
}

}  // namespace

NodeShards::NodeShards(const RankGroup& group, const Table& shard, const std::string& node) {
  const auto name = shard.bytes() > 0 ? unused_name() : std::string();  // nobody reads a shard without rows
  throw_refusals(group, attempt(group, [&] {
                   if (!name.empty()) held_ = SharedTable::hold(name, shard);
                 }));
  const auto mine = node_id(unused_name()) + " " + node;
  const auto nodes = group.gather_texts(mine), names = group.gather_texts(name);
  shards_.resize(nodes.size());
  throw_refusals(group, attempt(group, [&] {
                   for (std::size_t r = 0; r < nodes.size(); ++r)
                     if (static_cast<int>(r) != group.rank() && nodes[r] == mine && !names[r].empty())
                       shards_[r] = SharedTable::attach(names[r]);
                 }));
}

const Table* NodeShards::of(int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  return r < shards_.size() && shards_[r] ? &shards_[r]->table() : nullptr;
}

}  // namespace speedtorch
