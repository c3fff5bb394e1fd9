/// The result of a calibration: the spread of each row between processes of the same program, and how often a
/// comparison of two of them is a false alarm.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/statistics/spread.h"

namespace stbench::reports {

/// A row's standard deviation between processes, of the logarithm of each metric.
struct CalibratedCase {
  Identity id;
  std::size_t processes = 0;  ///< in which it was measured
  std::optional<double> time, ceiling;
};

/// Pairs of the processes, compared as single runs with the spread that the others show.
struct FalseAlarms {
  std::size_t pairs = 0, alarmed_pairs = 0;  ///< a pair with any row faster or slower is alarmed
  std::size_t rows = 0, alarmed_rows = 0;    ///< over all pairs
};

struct Calibration {
  std::string program;
  std::vector<std::string> argv;
  std::string started_at;
  nlohmann::ordered_json machine = nlohmann::ordered_json::object();  ///< as comparable.h's machine_of
  std::size_t processes = 0;
  FalseAlarms false_alarms;
  std::vector<CalibratedCase> cases;
};

/// A calibration's rows by what joins them, and the metric.
class CalibratedSpreads {
 public:
  CalibratedSpreads() = default;
  explicit CalibratedSpreads(const Calibration& calibration);

  [[nodiscard]] bool empty() const { return scatters_.empty(); }
  /// @param metric "time" or "ceiling"; others have no spread.
  [[nodiscard]] const Scatter* find(const Identity& id, const std::string& metric) const;
  /// True if the calibration knows both metrics of the case, and its time varied less than its time over the
  /// ceiling's.
  [[nodiscard]] bool is_quieter_by_time(const Identity& id) const;

 private:
  std::map<std::string, Scatter> scatters_;
};

}  // namespace stbench::reports
