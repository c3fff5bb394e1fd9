/// The tables of the suite that trains with batches larger than memory.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// One table per model, plain batch that fits, device and cores. Rows go by batch and policy: method, samples
/// per second beside the plain batch that fits, memory, distance of the gradients from the exact ones. A
/// method that ran out of memory has a row, too.
std::string training_tables(const std::vector<const Record*>& rows, Style style);

}  // namespace stbench::reports
