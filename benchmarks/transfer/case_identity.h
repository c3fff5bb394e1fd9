/// The words of a transfer case, as the command line and reports have them.
#pragma once

#include <string>

#include "benchmarks/transfer/transfer_case.h"
#include "reports/record.h"

namespace stbench {

/// The direction of a name. @throws std::out_of_range for a name that the command line would refuse
Direction direction_of(const std::string& name);

/// The case as reports have it.
reports::Identity identity_of(const TransferCase& one);
/// The case of a report's words; axes that are missing are at their defaults. No method is that of a cell.
/// @throws std::out_of_range, UsageError for words that the command line would refuse
TransferCase transfer_case(const reports::Identity& id);

}  // namespace stbench
