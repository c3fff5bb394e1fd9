/// The tables of the suite that trains by batches larger than memory.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// A table a model, what fits, device and cores: by batch and policy who trained how many samples a second,
/// beside the plain batch that fits; what memory it took, and how far its gradients are from the exact ones.
/// Who ran out of memory is a row, too.
std::string training_tables(const std::vector<const Record*>& rows, Style style);

}  // namespace stbench::reports
