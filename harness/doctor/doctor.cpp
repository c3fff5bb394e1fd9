#include "harness/doctor/doctor.h"

#include <fmt/format.h>

#include <array>

#include "harness/doctor/checks.h"
#include "harness/doctor/two_cpus.h"
#include "reports/group.h"
#include "reports/style.h"

namespace stbench::harness::doctor {
namespace {

std::string lines_of(const std::string& text, std::size_t indent, reports::Style style) {
  return reports::lines_of(text, indent, reports::Paint::none, style);
}

constexpr std::array<std::string_view, 4> kVerdicts = {"fine", "note", "spoils", "unknown"};

Finding finding(Verdict verdict, std::string found, std::string rows, std::string cure) {
  return {{}, verdict, std::move(found), std::move(rows), std::move(cure)};
}

std::vector<const Finding*> with_verdict(const std::vector<Finding>& findings, Verdict verdict) {
  return reports::those(reports::pointers_to(findings),
                        [&](const Finding& one) { return one.verdict == verdict; });
}

std::string in_full(const std::vector<const Finding*>& findings, reports::Style style) {
  std::string text;
  for (const auto* one : findings) {
    text += lines_of(fmt::format("  {}: {}", one->check, one->found), 4, style);
    text += lines_of(fmt::format("    rows: {}", one->rows), 6, style);
    if (!one->cure.empty()) text += lines_of(fmt::format("    cure: {}", one->cure), 6, style);
  }
  return text;
}

std::string section(std::string_view title, const std::string& body) {
  return body.empty() ? "" : fmt::format("{}:\n{}", title, body);
}

std::string unknown_lines(const std::vector<const Finding*>& findings, reports::Style style) {
  std::string text;
  for (const auto& same : reports::group_by(findings, [](const Finding& one) { return one.found; })) {
    std::vector<std::string> names;
    for (const auto* one : same) names.push_back(one->check);
    text += lines_of(fmt::format("  {}: {}", fmt::join(names, ", "), same.front()->found), 4, style);
  }
  return text;
}

std::string fine_lines(const std::vector<const Finding*>& findings, reports::Style style) {
  std::vector<std::string> names;
  for (const auto* one : findings) names.push_back(one->check);
  return names.empty() ? "" : lines_of(fmt::format("  {}", fmt::join(names, ", ")), 2, style);
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
  static const std::vector<Check> all = [] {
    std::vector<Check> checks;
    for (const auto& part : {cpu_checks(), memory_checks(), gpu_checks()})
      checks.insert(checks.end(), part.begin(), part.end());
    return checks;
  }();
  return all;
}

Sources read_sources(const EnvironmentSources& sources) {
  Sources read{speedtorch::SystemFiles(sources.root), std::nullopt, {}, build_info()};
  read.gpus = read_gpus(sources.nvml_library, read.no_gpus);
  read.two_cpus = slowdown_of_two_cpus(read.files);
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

std::string to_text(const std::vector<Finding>& findings, reports::Style style) {
  return section("Spoils numbers", in_full(with_verdict(findings, Verdict::spoils), style)) +
         section("Worth knowing", in_full(with_verdict(findings, Verdict::note), style)) +
         section("Not known", unknown_lines(with_verdict(findings, Verdict::unknown), style)) +
         section("Fine", fine_lines(with_verdict(findings, Verdict::fine), style));
}

}  // namespace stbench::harness::doctor
