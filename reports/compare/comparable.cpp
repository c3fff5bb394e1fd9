#include "reports/compare/comparable.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

#include "reports/style.h"

namespace stbench::reports {
namespace {

using Json = nlohmann::ordered_json;

struct Trait {
  std::string_view kind, part, name;
};

constexpr std::array kTraits = {
    Trait{"machine", "cpu", "model"},         Trait{"machine", "cpu", "design"},
    Trait{"machine", "cpu", "sockets"},       Trait{"machine", "cpu", "cores_allowed"},
    Trait{"machine", "cpu", "cpu_quota"},     Trait{"machine", "memory", "total_bytes"},
    Trait{"machine", "os", "architecture"},   Trait{"machine", "cuda", "names"},
    Trait{"driver", "gpu", "driver_version"}, Trait{"driver", "cuda", "driver"},
    Trait{"build", "build", "compiler"},      Trait{"build", "build", "compiler_version"},
    Trait{"build", "build", "flags"},         Trait{"build", "build", "build_type"},
    Trait{"build", "libtorch", "version"},    Trait{"build", "cuda", "runtime"},
    Trait{"table", "table", "file"},          Trait{"table", "table", "bytes"},
    Trait{"table", "table", "hash"},
};

/// Null if the report does not say; a null that it says is an answer ("no driver").
const Json* trait_in(const Report& report, const Trait& trait) {
  const Json& environment = report.environment;
  const auto part = environment.find(trait.part);
  if (part == environment.end() || !part->is_object()) return nullptr;
  const auto found = part->find(trait.name);
  return found == part->end() ? nullptr : &*found;
}

/// A kernel that keeps a little more or less for itself does not make another machine.
bool alike(const Json& one, const Json& other, std::string_view name) {
  constexpr double kTenth = 0.1;
  if (name == "total_bytes" && one.is_number() && other.is_number()) {
    return std::abs(one.get<double>() - other.get<double>()) <= kTenth * one.get<double>();
  }
  return one == other;
}

std::string shown_json(const Json& json) {
  constexpr std::size_t kEnough = 60;
  const std::string text =
      json.is_string() ? json.get<std::string>() : json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return json.is_null() ? "none" : shortened(one_line(text), kEnough);
}

/// The file of --table; "none" without one. Empty if the report cannot say.
std::string table_in(const Report& report) {
  const auto* file = trait_in(report, {"table", "table", "file"});
  if (file != nullptr) return shown_json(*file);
  return names_its_machine(report) ? "none" : "";
}

/// One report is of a real table, and the other is not.
void add_missing_table(const Report& one, const Report& other, std::vector<Difference>& all) {
  const auto first = table_in(one), second = table_in(other);
  if (first.empty() || second.empty() || (first == "none") == (second == "none")) return;
  all.push_back({"table", fmt::format("table.file: {}; {}", first, second)});
}

}  // namespace

std::vector<Difference> differences(const Report& one, const Report& other) {
  std::vector<Difference> all;
  for (const Trait& trait : kTraits) {
    const Json* const first = trait_in(one, trait);
    const Json* const second = trait_in(other, trait);
    if (first == nullptr || second == nullptr || alike(*first, *second, trait.name)) continue;
    all.push_back({std::string(trait.kind), fmt::format("{}.{}: {}; {}", trait.part, trait.name,
                                                        shown_json(*first), shown_json(*second))});
  }
  add_missing_table(one, other, all);
  return all;
}

Json machine_of(const Report& report) {
  Json machine = Json::object();
  for (const Trait& trait : kTraits) {
    const Json* const found = trait_in(report, trait);
    if (trait.kind == "build" || trait.kind == "table" || found == nullptr) continue;
    machine[std::string(trait.part)][std::string(trait.name)] = *found;
  }
  return machine;
}

bool names_its_machine(const Report& report) { return trait_in(report, kTraits.front()) != nullptr; }

}  // namespace stbench::reports
