/// Case IDs: a case as text, which `--case` reads back: `transfer to pinned -> speedtorch -> cuda:0 float32
/// 10M×128 batch 131072 unique int64 cores=2`, and for suites that move nothing `memory in pinned ->
/// speedtorch -> cuda:0 float32 10M×128`; for suites without indices `contiguous step libtorch -> fused ->
/// cpu float32 1k×1k cores=2`.
#pragma once

#include <string>
#include <string_view>

#include "reports/record.h"

namespace stbench::harness {

/// The further axes of a suite and their defaults, in the order of the report's `axes`.
using AxisDefaults = reports::Columns;

/// The kind of a suite's cases: they move the rows of a batch; hold a table, without batch, indices and
/// cores; or work on all of it, without batch and indices.
enum class CaseKind { moves, holds, works };

/// The case ID. `key=value` follows for each axis that is not at its default. Words with blanks, quotes or an
/// arrow in them are in double quotes.
std::string format_case(const reports::Identity& id, const AxisDefaults& defaults);

/// The case of a case ID. `x` may be written for `×`, blanks do not count, and `key=value` may be anywhere.
/// An axis that is not named is at its default. A value has the type of its default; if the default is empty,
/// the type that it looks like.
/// @returns an identity whose `axes` are all of `defaults`, in their order
/// @throws UsageError naming the word that does not fit, and the right form.
reports::Identity parse_case(std::string_view text, const AxisDefaults& defaults,
                             CaseKind kind = CaseKind::moves);

}  // namespace stbench::harness
