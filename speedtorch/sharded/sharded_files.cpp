#include "speedtorch/sharded/sharded_files.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <regex>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/files/npy.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/sharded/agreement.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/new_folder.h"
#include "speedtorch/system/small_file.h"
#include "speedtorch/tables/saved_tables.h"

namespace speedtorch {
namespace {

std::string shard_file(const std::string& folder, int rank) {
  return folder + "/shard-" + std::to_string(rank) + ".npy";
}

std::string manifest_file(const std::string& folder) { return folder + "/manifest.json"; }

std::string manifest_of(const RowOwners& owners) {
  return "{\"format\": 1, \"rows\": " + std::to_string(owners.rows()) +
         ", \"ranks\": " + std::to_string(owners.ranks()) + ", \"sharding\": \"" +
         std::string(to_string(owners.sharding())) + "\"}\n";
}

/// @throws FileError
RowOwners read_manifest(const std::string& folder) {
  constexpr std::int64_t kLargest = 200;  // of format 1: 110 bytes
  const std::string text = read_small_file(manifest_file(folder), kLargest);
  static const std::regex form(
      R"re(\{"format": 1, "rows": (\d{1,18}), "ranks": ([1-9]\d{0,8}), "sharding": "(blocks|cyclic|hashed)"\}\n)re");
  std::smatch parts;
  if (!std::regex_match(text, parts, form))
    throw FileError("'manifest.json' is none of a sharded table in format 1: " +
                    text.substr(0, std::min<std::size_t>(80, text.find('\n'))));
  return {sharding_of(parts[3].str()), std::stoll(parts[1]), std::stoi(parts[2])};
}

/// The files of a folder, mapped.
struct Saved {
  RowOwners owners;
  std::vector<std::shared_ptr<MappedFile>> shards;
  std::vector<std::int64_t> sizes;  // of the whole table

  explicit Saved(const std::string& folder) : owners(read_manifest(folder)) {
    for (int r = 0; r < owners.ranks(); ++r) {
      shards.push_back(MappedFile::open(shard_file(folder, r), Access::read_only));
      auto expected = shards.front()->shape().vec();
      if (!expected.empty()) expected.front() = owners.rows_of(r);
      const auto& found = *shards.back();
      if (expected.empty() || found.shape() != at::IntArrayRef(expected) ||
          found.dtype() != shards.front()->dtype())
        throw FileError("'" + found.name() + "' is " + c10::toString(found.dtype()) + " " +
                        c10::str(found.shape()) + "; its manifest and shard-0.npy say " +
                        c10::toString(shards.front()->dtype()) + " " + c10::str(at::IntArrayRef(expected)));
    }
    sizes = shards.front()->shape().vec();
    sizes.front() = owners.rows();
  }
};

/// Sets the rows of one rank's shard to those saved, each piece from one file after the other.
ByPieces rows_of(const Saved& saved, const RowOwners& owners, int rank) {
  return [&saved, &owners, rank](at::Tensor& rows, std::int64_t first_row) {
    std::vector<std::vector<std::int64_t>> from(saved.shards.size()), to(saved.shards.size());
    for (std::int64_t k = 0; k < rows.size(0); ++k) {
      const auto place = saved.owners.place_of(owners.row_of({rank, first_row + k}));
      from[static_cast<std::size_t>(place.rank)].push_back(place.row);
      to[static_cast<std::size_t>(place.rank)].push_back(k);
    }
    for (std::size_t r = 0; r < from.size(); ++r) {
      const auto count = static_cast<std::int64_t>(from[r].size());
      if (count == 0) continue;
      const auto numbers = [&](std::vector<std::int64_t>& of) {
        return at::from_blob(of.data(), {count}, at::kLong);
      };
      auto sizes = rows.sizes().vec();
      sizes.front() = count;
      auto read = at::empty(sizes, rows.options());
      gather_rows(*saved.shards[r], numbers(from[r]), read);
      scatter_rows(rows, numbers(to[r]), read);
    }
  };
}

}  // namespace

void save_sharded(const ShardedTable& table, const std::string& folder) {
  const auto& group = table.group();
  const bool first = group.rank() == 0;
  std::optional<NewFolder> made;
  throw_refusals(group, attempt(group, [&] {
                   if (first) made.emplace(folder);
                 }));
  const auto path = group.gather_texts(first ? made->path() : std::string()).front();
  throw_refusals(group, attempt(group, [&] {
                   save_npy(table.shard(), shard_file(path, group.rank()));
                   if (first) replace_file(manifest_file(path), manifest_of(table.owners()));
                 }));
  throw_refusals(group, attempt(group, [&] {
                   if (first) made->publish();
                 }));
}

void refuse_save(const ShardedTable& table, const std::string& why) {
  announce_refusal(why, [&](const auto& refusal) { throw_refusals(table.group(), refusal); });
}

ShardedTable load_sharded(const RankGroup& group, const std::string& folder, const ShardedOptions& options) {
  std::optional<Saved> saved;
  begin_table(group, attempt(group, [&] { saved.emplace(folder); }));
  const auto fill_of = [&](const RowOwners& owners) -> Fill { return rows_of(*saved, owners, group.rank()); };
  return ShardedTable::filled(group, saved->sizes, saved->shards.front()->dtype(), fill_of, options);
}

Table load_sharded_as_table(const std::string& folder, const TableOptions& options) {
  const Saved saved(folder);
  const RowOwners whole(Sharding::blocks, saved.owners.rows(), 1);
  return Table::filled(saved.sizes, saved.shards.front()->dtype(), rows_of(saved, whole, 0), options);
}

}  // namespace speedtorch
