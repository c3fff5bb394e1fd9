/// A folder of named baselines and calibrations, to be committed with the code.
///
///   DIR/NAME/1.json, 2.json, ...   the reports of a baseline, one per process
///   DIR/calibration-WHERE.json     what `stbench calibrate` found on a machine
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/compare/calibration.h"
#include "reports/record.h"

namespace stbench::reports {

class Baselines {
 public:
  /// @param folder need not exist before something is saved
  explicit Baselines(std::string folder) : folder_(std::move(folder)) {}

  /// @throws ReportError for a name that is no plain file name (letters, digits, ".", "-", "_").
  static void check_name(const std::string& name);

  /// Replaces the baseline atomically. If the file system cannot exchange two folders, the baseline is absent
  /// between two renames.
  /// @throws ReportError on failure; the baseline is then unchanged.
  void save(const std::string& name, const std::vector<Report>& reports) const;

  /// The paths of a baseline's reports, in their order.
  /// @throws ReportError if there is none of that name, with the existing names.
  [[nodiscard]] std::vector<std::string> files(const std::string& name) const;

  /// True if saving one replaces the other: they have the same name, or one is a link to the other.
  [[nodiscard]] bool are_one(const std::string& name, const std::string& other) const;

  /// Creates the folder if it is missing and replaces the file atomically. @returns its path
  std::string save(const Calibration& calibration) const;

  /// The calibration of the report's machine and driver, or nothing.
  /// @throws ReportError if a calibration file cannot be read.
  [[nodiscard]] std::optional<Calibration> calibration_for(const Report& report) const;

  /// The calibrations of other machines or drivers, which are refused: "FILE: cpu.model: A; B" each.
  /// @throws as calibration_for()
  [[nodiscard]] std::vector<std::string> foreign_calibrations(const Report& report) const;

 private:
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::vector<std::pair<std::string, Calibration>> calibrations() const;

  std::string folder_;
};

/// The reports of a path: the file itself, or the *.json of a folder in the order of their names.
/// @throws ReportError for a folder without any.
std::vector<std::string> report_files(const std::string& path);

}  // namespace stbench::reports
