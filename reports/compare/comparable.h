/// Whether two reports are of the same machine, driver and build, so that a difference of times means
/// something.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

/// Something in which two reports differ and which a comparison must be told to cross.
struct Difference {
  std::string kind;  ///< "machine", "driver" or "build"
  std::string text;  ///< "cpu.model: AMD EPYC, Intel Xeon"
};

/// Machine: processor, sockets, cores allowed, memory (to a tenth), GPUs. Driver: of the GPUs. Build:
/// compiler, its version and flags, build type, LibTorch, CUDA runtime; the git revision is none of it. What
/// one of the two does not say (a CSV says nothing) is no difference.
std::vector<Difference> differences(const Report& one, const Report& other);

/// What tells a machine and its driver from another, for a calibration.
nlohmann::ordered_json machine_of(const Report& report);

/// True where the report says which machine it is of; a CSV does not.
bool names_its_machine(const Report& report);

}  // namespace stbench::reports
