/// A case as a sentence, which `--case` takes back:
/// `transfer to pinned -> speedtorch -> cuda:0 float32 10M×128 batch 131072 unique int64 cores=2`, and where
/// nothing is moved `memory in pinned -> speedtorch -> cuda:0 float32 10M×128`; where there are no indices
/// `contiguous step libtorch -> fused -> cpu float32 1k×1k cores=2`.
#pragma once

#include <string>
#include <string_view>

#include "reports/record.h"

namespace stbench::harness {

/// The further axes of a suite and their defaults, in the order of the report's `axes`.
using AxisDefaults = reports::Columns;

/// What a suite's cases do: move rows of a batch; hold a table, without batch, indices and cores; or work on
/// all of it on so many cores, without batch and indices.
enum class CaseKind { moves, holds, works };

/// The sentence of a case; `key=value` follows for each axis that is not at its default. Words that the
/// sentence could not tell apart (with blanks, quotes or an arrow in them) stand in double quotes.
std::string format_case(const reports::Identity& id, const AxisDefaults& defaults);

/// The case of a sentence. `x` is as good as `×`; blanks do not count; `key=value` may stand anywhere, and an
/// axis that is not named is at its default. A value is of its default's kind; where that is empty, it is
/// what it looks like.
/// @returns an identity whose `axes` are all of `defaults`, in their order
/// @throws UsageError naming the word that does not fit, and the right form.
reports::Identity parse_case(std::string_view sentence, const AxisDefaults& defaults,
                             CaseKind kind = CaseKind::moves);

}  // namespace stbench::harness
