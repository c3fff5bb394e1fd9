#include "reports/compare/baselines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "reports/compare/comparable.h"
#include "reports/error.h"
#include "reports/files/file.h"
#include "reports/files/json.h"
#include "reports/files/json_value.h"
#include "speedtorch/system/unfinished.h"

namespace stbench::reports {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCalibration = "calibration-";

[[noreturn]] void refuse(const std::string& path, const std::error_code& error) {
  throw ReportError(fmt::format("cannot write \"{}\": {}; a folder you may write to would be right", path,
                                error.message()));
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse(path, error);
}

/// "amd-epyc-2-2": what of a machine can stand in a file's name.
std::string slug(const nlohmann::ordered_json& machine) {
  constexpr std::size_t kLongest = 200;
  std::string text;
  for (const auto& part : machine.flatten()) {
    const std::string word = part.is_string() ? part.get<std::string>() : part.is_null() ? "" : part.dump();
    for (const char c : word + "-") {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
      if (plain) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (!plain && !text.empty() && text.back() != '-') text += '-';
    }
  }
  text = text.substr(0, kLongest);
  text.erase(text.find_last_not_of('-') + 1);
  return text.empty() ? "machine" : text;
}

/// How the machine or its driver differs from the calibrated one; nothing if neither does.
std::optional<std::string> another_machine(const Calibration& calibration, const Report& report) {
  Report machine;
  machine.environment = calibration.machine;
  for (const Difference& difference : differences(machine, report)) {
    if (difference.kind != "build") return difference.text;
  }
  return std::nullopt;
}

std::vector<fs::path> sorted_entries(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  // 2.json before 10.json
  std::ranges::sort(entries, {}, [](const fs::path& path) { return std::pair(path.string().size(), path); });
  return entries;
}

}  // namespace

std::vector<std::string> report_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (const fs::path& entry : sorted_entries(path)) {
    if (entry.extension() == ".json") files.push_back(entry.string());
  }
  if (files.empty()) throw ReportError(fmt::format("\"{}\" is a folder without reports (*.json)", path));
  return files;
}

void Baselines::check_name(const std::string& name) {
  const bool plain =
      !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
      });
  if (!plain || name.ends_with(".json")) {
    throw ReportError(fmt::format(
        "\"{}\" is no name of a baseline; letters, digits, \".\", \"-\" and \"_\" would be right, as in main",
        name));
  }
}

void Baselines::save(const std::string& name, const std::vector<Report>& reports) const {
  check_name(name);
  make_folder(folder_);
  const std::string target = folder_ + "/" + name;
  remove_leftovers_and_warn(target);
  speedtorch::UnfinishedFolder scratch(target);
  if (scratch.error() != 0) refuse(target, {scratch.error(), std::generic_category()});
  for (std::size_t i = 0; i < reports.size(); ++i) {
    ReportFile(fmt::format("{}/{}.json", scratch.path(), i + 1)).write(to_json(reports[i]));
  }
  if (const int error = scratch.replace(); error != 0) refuse(target, {error, std::generic_category()});
}

std::vector<std::string> Baselines::names() const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::path& entry : sorted_entries(folder_)) {
    const std::string name = entry.filename().string();
    if (fs::is_directory(entry, ignored) && name.front() != '.') names.push_back(name);
  }
  return names;
}

std::vector<std::string> Baselines::files(const std::string& name) const {
  check_name(name);
  std::error_code error;
  const std::string path = folder_ + "/" + name;
  if (fs::is_directory(path, error)) return report_files(path);
  const auto known = names();
  throw ReportError(fmt::format("no baseline \"{}\" in \"{}\"{}; --save-baseline {} makes one", name, folder_,
                                known.empty() ? "" : fmt::format(" (there are: {})", fmt::join(known, ", ")),
                                name));
}

bool Baselines::are_one(const std::string& name, const std::string& other) const {
  std::error_code ignored;  // one that does not exist is no other
  return name == other || fs::equivalent(folder_ + "/" + name, folder_ + "/" + other, ignored);
}

std::string Baselines::save(const Calibration& calibration) const {
  make_folder(folder_);
  const std::string path = fmt::format("{}/{}{}.json", folder_, kCalibration, slug(calibration.machine));
  ReportFile(path).write(to_json(calibration));
  return path;
}

std::vector<std::pair<std::string, Calibration>> Baselines::calibrations() const {
  std::vector<std::pair<std::string, Calibration>> all;
  for (const fs::path& entry : sorted_entries(folder_)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(kCalibration) || entry.extension() != ".json") continue;
    all.emplace_back(name, calibration_from_json(read_file(entry.string()), entry.string()));
  }
  return all;
}

std::optional<Calibration> Baselines::calibration_for(const Report& report) const {
  if (!names_its_machine(report)) return std::nullopt;
  constexpr const char* kDesign = "/cpu/design";
  const bool wanted = json_at(report.environment, kDesign) != nullptr;
  std::optional<Calibration> other;  // one of them is of a version that did not record the design
  for (auto& [name, calibration] : calibrations()) {
    if (another_machine(calibration, report)) continue;
    if ((json_at(calibration.machine, kDesign) != nullptr) == wanted) return std::move(calibration);
    if (!other) other = std::move(calibration);
  }
  return other;
}

std::vector<std::string> Baselines::foreign_calibrations(const Report& report) const {
  std::vector<std::string> foreign;
  for (const auto& [name, calibration] : calibrations()) {
    if (const auto other = another_machine(calibration, report))
      foreign.push_back(fmt::format("{}: {}", name, *other));
  }
  return foreign;
}

}  // namespace stbench::reports
