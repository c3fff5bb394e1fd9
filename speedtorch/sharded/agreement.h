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

/// Throws on all ranks if one of them refuses: there its own error, on the others RankError. Called by all.
void throw_refusals(const RankGroup& group, const std::exception_ptr& refusal);

}  // namespace speedtorch
