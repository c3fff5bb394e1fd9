/// What a report says of the ways to the rows of mapped files.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/transfer/transfer_case.h"

namespace stbench {

/// Of the cases that are measured, those of `mapped` tables: `reads`, how file_rows reads (`io_uring`, or
/// `advice` and the `reason`), and for each GPU `to_cuda:N`, whether it reads a file in place or has its rows
/// staged, and why. Empty where there is nothing to say.
nlohmann::ordered_json files_environment(const std::vector<TransferCase>& cases);

}  // namespace stbench
