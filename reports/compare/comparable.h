/// Checks that two reports are of the same machine, driver, build and table, so that their times can be
/// compared.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

/// A difference of two reports; a comparison needs the user's permission to ignore it.
struct Difference {
  std::string kind;  ///< "machine", "driver", "build" or "table"
  std::string text;  ///< "cpu.model: AMD EPYC, Intel Xeon"
};

/// Machine: processor, sockets, cores allowed, memory (to a tenth), GPUs. Driver: of the GPUs. Build:
/// compiler, its version and flags, build type, LibTorch, CUDA runtime, but not the git revision. Table:
/// name, size and hash of the file of --table; a report without that option is of another table. A value that
/// one report lacks (a CSV lacks all) is no difference.
std::vector<Difference> differences(const Report& one, const Report& other);

/// The properties that identify a machine and its driver, for a calibration.
nlohmann::ordered_json machine_of(const Report& report);

/// True if the report names its machine; a CSV does not.
bool names_its_machine(const Report& report);

}  // namespace stbench::reports
