/// The findings of the checks of the machine, and their sources.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/build_info.h"
#include "harness/nvml.h"
#include "speedtorch/system/system_files.h"

namespace stbench::harness::doctor {

/// `fine`; `note`: a property of the machine that its numbers carry, and that nobody need change; `spoils`:
/// it makes numbers wrong, slow or unrepeatable, and can be cured; `unknown`: the check could not read what
/// it needs.
enum class Verdict { fine, note, spoils, unknown };

std::string_view to_string(Verdict verdict);

/// One check's result. All texts are one line without names of hosts, users or folders of the user's.
struct Finding {
  std::string check;  ///< the check's name
  Verdict verdict = Verdict::unknown;
  std::string found;  ///< what there is, or why it is not known
  std::string rows;   ///< which rows it touches; empty if the verdict is fine or unknown
  std::string cure;   ///< what to do, where something can be done
};

/// The graphics processors as the driver tells of them.
struct Gpus {
  std::vector<GpuState> devices;
  std::optional<bool> confidential_computing;
};

/// All that the checks look at; tests make their own.
struct Sources {
  speedtorch::SystemFiles files;  ///< /proc and /sys
  std::optional<Gpus> gpus;       ///< nothing without a driver
  std::string no_gpus;            ///< then why
  BuildInfo build = build_info();
  std::optional<double> two_cpus = {};  ///< slowdown_of_two_cpus(), measured
};

struct Check {
  std::string_view name;
  Finding (*look)(const Sources&);
};

/// Its name is the program's to give (see checks()).
Finding fine(std::string found);
Finding note(std::string found, std::string rows, std::string cure = {});
Finding spoils(std::string found, std::string rows, std::string cure);
/// @param why a part of a sentence: "the kernel tells no governor"
Finding unknown(std::string why);

}  // namespace stbench::harness::doctor
