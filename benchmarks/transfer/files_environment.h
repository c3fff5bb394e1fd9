/// The part of a report's environment on mapped files.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/transfer/transfer_case.h"

namespace stbench {

/// For `mapped` tables among the measured cases: `reads`, how file_rows reads (`io_uring`, or `advice` and
/// the `reason`); and `to_cuda:N` for each GPU, whether it reads a file in place or rows are staged, and why.
/// Empty without such cases.
nlohmann::ordered_json files_environment(const std::vector<TransferCase>& cases);

}  // namespace stbench
