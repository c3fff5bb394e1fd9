#include "tests/emulated_gpu/runtime/nvml_sensors.h"

#include <cstdio>
#include <fstream>

#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/settings.h"

namespace emulated_gpu {
namespace {

Sensors healthy(int device) {
  const auto bytes = std::to_string(settings().bytes[static_cast<std::size_t>(device)]);
  return {{"driver", "580.65.06"},
          {"memory_bytes", bytes},
          {"memory_free_bytes", bytes},
          {"link_generation", "5"},
          {"link_generation_max", "5"},
          {"link_width", "16"},
          {"link_width_max", "16"},
          {"sm_clock_mhz", "1980"},
          {"sm_clock_max_mhz", "1980"},
          {"memory_clock_mhz", "2619"},
          {"memory_clock_max_mhz", "2619"},
          {"throttle_bits", "0"},
          {"mig", "0"},
          {"ecc", "1"},
          {"persistence", "1"},
          {"temperature_c", "40"},
          {"power_mw", "120000"},
          {"power_limit_mw", "700000"},
          {"busy_percent", "0"},
          {"confidential", "0"}};
}

std::string trimmed(const std::string& line) {
  const auto end = line.find('#');
  const std::string all = line.substr(0, end);
  const auto first = all.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return all.substr(first, all.find_last_not_of(" \t\r") - first + 1);
}

bool is_number(const std::string& value) {
  std::size_t used = 0;
  try {
    std::stoull(value, &used, 0);
  } catch (const std::exception&) {
    return false;
  }
  return used == value.size();
}

class Reader {
 public:
  explicit Reader(int device) : device_(device), sensors_(healthy(device)) {}

  void take(const std::string& line, int number) {
    int section = 0;
    char end = 0;
    if (line.empty()) return;
    if (line.front() == '[') {
      if (std::sscanf(line.c_str(), "[%d%c", &section, &end) != 2 || end != ']') wrong(line, number);
      applies_ = section == device_;
      return;
    }
    const auto equals = line.find('=');
    if (equals == std::string::npos) wrong(line, number);
    const auto name = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
    const bool is_text = name == "name" || name == "driver";
    if ((name != "name" && healthy(device_).count(name) == 0) ||
        (!is_text && value != "unsupported" && !is_number(value)))
      wrong(line, number);
    if (applies_) sensors_[name] = value;
  }

  [[nodiscard]] const Sensors& sensors() const { return sensors_; }

 private:
  [[noreturn]] static void wrong(const std::string& line, int number) {
    std::string names = "name";
    for (const auto& [name, value] : healthy(0)) names += ", " + name;
    refuse(text(settings().sensors, ":", number, ": \"", line,
                "\" is neither [NUMBER] nor NAME = NUMBER; names are ", names));
  }

  int device_;
  bool applies_ = true;
  Sensors sensors_;
};

}  // namespace

Sensors read_sensors(int device) {
  Reader reader(device);
  if (settings().sensors.empty()) return reader.sensors();
  std::ifstream file(settings().sensors);
  if (!file)
    refuse(text("EMULATED_GPU_SENSORS=", settings().sensors, ": it must be a file that can be read"));
  int number = 0;
  for (std::string line; std::getline(file, line);) reader.take(trimmed(line), ++number);
  return reader.sensors();
}

std::optional<unsigned long long> sensor(const Sensors& sensors, const std::string& name) {
  const auto& value = sensors.at(name);
  if (value == "unsupported") return std::nullopt;
  return std::stoull(value, nullptr, 0);
}

}  // namespace emulated_gpu
