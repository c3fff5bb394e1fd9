/// Sharded tables as folders of files, for any number of ranks.
#pragma once

#include <string>

#include "speedtorch/sharded/sharded_table.h"

namespace speedtorch {

/// Writes a folder that all ranks reach: `shard-0.npy` with the rows of rank 0, and so on, and
/// `manifest.json` with the rows, the ranks and the sharding. Collective. The folder appears under its name
/// once it is whole and on the disk, and never replaces another. A killed process leaves at most a folder
/// with a temporary name beside it.
/// @throws FileError on the rank that cannot write, RankError on the others; nothing is left then. GroupError
void save_sharded(const ShardedTable& table, const std::string& folder);

/// Takes part in save_sharded() as a rank whose caller refuses the arguments, so that the others throw
/// RankError with `why` instead of waiting. For bindings of other languages. @throws GroupError
void refuse_save(const ShardedTable& table, const std::string& why);

/// Reads a folder of save_sharded() into the shards of any number of ranks, with any sharding. Collective.
/// @throws FileError or NpyError on the rank that cannot read the folder, RankError on the others; as
/// ShardedTable::empty()
ShardedTable load_sharded(const RankGroup& group, const std::string& folder,
                          const ShardedOptions& options = {});

/// Reads the whole table of such a folder in one process. @throws FileError, NpyError; what Table::empty
/// throws
Table load_sharded_as_table(const std::string& folder, const TableOptions& options = default_table_options());

}  // namespace speedtorch
