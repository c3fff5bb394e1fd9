#include "harness/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/doctor/checks.h"
#include "reports/group.h"
#include "reports/style.h"

namespace stbench::harness::doctor {
namespace {

constexpr std::array<std::string_view, 4> kVerdicts = {"fine", "note", "spoils", "unknown"};

Finding finding(Verdict verdict, std::string found, std::string rows, std::string cure) {
  return {{}, verdict, std::move(found), std::move(rows), std::move(cure)};
}

std::vector<const Finding*> those(const std::vector<Finding>& findings, Verdict verdict) {
  std::vector<const Finding*> found;
  for (const auto& one : findings) {
    if (one.verdict == verdict) found.push_back(&one);
  }
  return found;
}

std::string lines(const std::string& text, std::size_t indent) {
  return fmt::format("{}\n", fmt::join(reports::wrapped(text, reports::kScreenWidth, indent), "\n"));
}

std::string in_full(const std::vector<const Finding*>& findings) {
  std::string text;
  for (const auto* one : findings) {
    text += lines(fmt::format("  {}: {}", one->check, one->found), 4);
    text += lines(fmt::format("    rows: {}", one->rows), 6);
    if (!one->cure.empty()) text += lines(fmt::format("    cure: {}", one->cure), 6);
  }
  return text;
}

std::string section(std::string_view title, const std::string& body) {
  return body.empty() ? "" : fmt::format("{}:\n{}", title, body);
}

std::string unknown_lines(const std::vector<const Finding*>& findings) {
  std::string text;
  for (const auto& same : reports::group_by(findings, [](const Finding& one) { return one.found; })) {
    std::vector<std::string> names;
    for (const auto* one : same) names.push_back(one->check);
    text += lines(fmt::format("  {}: {}", fmt::join(names, ", "), same.front()->found), 4);
  }
  return text;
}

std::string fine_lines(const std::vector<const Finding*>& findings) {
  std::vector<std::string> names;
  for (const auto* one : findings) names.push_back(one->check);
  return names.empty() ? "" : lines(fmt::format("  {}", fmt::join(names, ", ")), 2);
}

std::optional<Gpus> read_gpus(const std::string& library, std::string& why_not) {
  try {
    const Nvml nvml(library);
    Gpus gpus;
    for (int index = 0; index < nvml.device_count(); ++index) gpus.devices.push_back(nvml.state(index));
    gpus.confidential_computing = nvml.confidential_computing();
    return gpus;
  } catch (const NvmlError& error) {
    why_not = error.what();
    return std::nullopt;
  }
}

}  // namespace

std::string_view to_string(Verdict verdict) { return kVerdicts.at(static_cast<std::size_t>(verdict)); }

Finding fine(std::string found) { return finding(Verdict::fine, std::move(found), {}, {}); }
Finding note(std::string found, std::string rows, std::string cure) {
  return finding(Verdict::note, std::move(found), std::move(rows), std::move(cure));
}
Finding spoils(std::string found, std::string rows, std::string cure) {
  return finding(Verdict::spoils, std::move(found), std::move(rows), std::move(cure));
}
Finding unknown(std::string why) { return finding(Verdict::unknown, std::move(why), {}, {}); }

const std::vector<Check>& checks() {
  static const std::vector<Check> all{
      {"build", check_build},
      {"governor", check_governor},
      {"turbo", check_turbo},
      {"load", check_load},
      {"cpu-quota", check_cpu_quota},
      {"cpuset", check_cpuset},
      {"virtual-machine", check_virtual_machine},
      {"steal", check_steal},
      {"clock-source", check_clock_source},
      {"mitigations", check_mitigations},
      {"huge-pages", check_huge_pages},
      {"huge-page-defrag", check_huge_page_defrag},
      {"shared-huge-pages", check_shared_huge_pages},
      {"memlock", check_memlock},
      {"numa-nodes", check_numa_nodes},
      {"numa-balancing", check_numa_balancing},
      {"free-memory", check_free_memory},
      {"dirty-pages", check_dirty_pages},
      {"swap", check_swap},
      {"memory-limit", check_memory_limit},
      {"driver", check_driver},
      {"iommu", check_iommu},
      {"link", check_link},
      {"gpu-clocks", check_gpu_clocks},
      {"gpu-load", check_gpu_load},
      {"mig", check_mig},
      {"ecc", check_ecc},
      {"persistence", check_persistence},
      {"confidential-computing", check_confidential_computing},
  };
  return all;
}

Sources read_sources(const EnvironmentSources& sources) {
  Sources read{speedtorch::SystemFiles(sources.root), std::nullopt, {}, build_info()};
  read.gpus = read_gpus(sources.nvml_library, read.no_gpus);
  return read;
}

std::vector<Finding> examine(const Sources& sources) {
  std::vector<Finding> findings;
  for (const auto& check : checks()) {
    findings.push_back(check.look(sources));
    findings.back().check = check.name;
  }
  return findings;
}

nlohmann::ordered_json to_json(const std::vector<Finding>& findings) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
  };
  auto all = nlohmann::ordered_json::array();
  for (const auto& one : findings) {
    all.push_back({{"check", one.check},
                   {"verdict", to_string(one.verdict)},
                   {"found", one.found},
                   {"rows", text_or_null(one.rows)},
                   {"cure", text_or_null(one.cure)}});
  }
  return {{"findings", std::move(all)}};
}

std::string to_text(const std::vector<Finding>& findings) {
  return section("Spoils numbers", in_full(those(findings, Verdict::spoils))) +
         section("Worth knowing", in_full(those(findings, Verdict::note))) +
         section("Not known", unknown_lines(those(findings, Verdict::unknown))) +
         section("Fine", fine_lines(those(findings, Verdict::fine)));
}

}  // namespace stbench::harness::doctor
