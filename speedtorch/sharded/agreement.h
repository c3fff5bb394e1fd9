/// How the ranks of a group refuse together. For the library's own files.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "speedtorch/sharded/rank_group.h"

namespace speedtorch {

/// For messages: " (on rank 1 of 4)".
std::string of_rank(const RankGroup& group);

/// Calls `work` and returns its error, for the ranks to agree on before one of them throws. IndexError and
/// DuplicateError then name the rank.
std::exception_ptr attempt(const RankGroup& group, const std::function<void()>& work);

/// Calls `take_part` with a refusal for the other ranks, which it throws in the end, and returns: the caller
/// has the error itself.
void announce_refusal(const std::string& why,
                      const std::function<void(const std::exception_ptr& refusal)>& take_part);

/// Begins all collective functions that make a table: compares the ranks' versions, then refuses as below.
void begin_table(const RankGroup& group, const std::exception_ptr& refusal);

/// Throws on all ranks if one of them refuses: there its own error, on the others RankError. Called by all.
void throw_refusals(const RankGroup& group, const std::exception_ptr& refusal);

}  // namespace speedtorch
