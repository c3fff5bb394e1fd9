/// A folder of named baselines and calibrations, to be committed with the code.
///
///   DIR/NAME/1.json, 2.json, ...   the reports of a baseline, one a process
///   DIR/calibration-WHERE.json     what `stbench calibrate` found on a machine
#pragma once

#include <optional>
#include <string>
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

  /// Replaces the baseline whole: at each moment it is what it was, or the new reports, or (for the instant
  /// between two renames, where the file system cannot exchange two folders) absent.
  /// @throws ReportError where that cannot be done: the baseline is as it was.
  void save(const std::string& name, const std::vector<Report>& reports) const;

  /// The paths of a baseline's reports, in their order.
  /// @throws ReportError where there is none of that name, with the names that there are.
  [[nodiscard]] std::vector<std::string> files(const std::string& name) const;

  /// Creates the folder where it is missing and replaces the file whole. @returns its path
  std::string save(const Calibration& calibration) const;

  /// The calibration of the report's machine and driver, or nothing.
  /// @throws ReportError where a calibration file cannot be read.
  [[nodiscard]] std::optional<Calibration> calibration_for(const Report& report) const;

 private:
  [[nodiscard]] std::vector<std::string> names() const;

  std::string folder_;
};

/// The reports that a path means: itself, or, where it is a folder, its *.json in the order of their names.
/// @throws ReportError for a folder without any.
std::vector<std::string> report_files(const std::string& path);

}  // namespace stbench::reports
