#include "tests/emulated_gpu/runtime/settings.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "tests/emulated_gpu/runtime/messages.h"

extern char** environ;

namespace emulated_gpu {
namespace {

using Apply = std::function<bool(Settings&, const std::string&)>;

struct Variable {
  std::string name;   ///< without EMULATED_GPU_
  std::string right;  ///< what a right value looks like
  Apply apply;        ///< returns false for a wrong value
};

std::optional<std::uint64_t> number(const std::string& value, std::uint64_t least, std::uint64_t most) {
  if (value.empty() || value.size() > 19) return std::nullopt;
  for (const char c : value) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return std::nullopt;
  }
  const auto parsed = std::stoull(value);
  if (parsed < least || parsed > most) return std::nullopt;
  return parsed;
}

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// Sets `target` to whether the value is `yes`; refuses what is neither.
Apply either(bool Settings::*target, std::string yes, std::string no) {
  return [=](Settings& to, const std::string& value) {
    to.*target = value == yes;
    return value == yes || value == no;
  };
}

Apply natural(std::uint64_t Settings::*target, std::uint64_t least, std::uint64_t most) {
  return [=](Settings& to, const std::string& value) {
    const auto parsed = number(value, least, most);
    if (parsed) to.*target = *parsed;
    return parsed.has_value();
  };
}

Apply path(std::string Settings::*target) {
  return [=](Settings& to, const std::string& value) {
    to.*target = value;
    return !value.empty();
  };
}

bool set_devices(Settings& to, const std::string& value) {
  const auto parsed = number(value, 0, max_devices);
  if (parsed) to.devices = static_cast<int>(*parsed);
  return parsed.has_value();
}

bool set_bytes(Settings& to, const std::string& value) {
  const auto list = words(value);
  if (list.empty() || list.size() > to.bytes.size()) return false;
  for (std::size_t device = 0; device < to.bytes.size(); ++device) {
    const auto parsed = number(list[std::min(device, list.size() - 1)], 1ULL << 20, 1ULL << 40);
    if (!parsed) return false;
    to.bytes[device] = *parsed;
  }
  return true;
}

bool set_checks(Settings& to, const std::string& value) {
  for (const auto& check : words(value)) {
    if (check == "races") {
      to.find_races = true;
    } else if (check == "unwritten") {
      to.find_unwritten = true;
    } else {
      return false;
    }
  }
  return true;
}

/// True if the runtime emulates a function of that name. The stand-in of NVML, which reads the settings too,
/// leaves it to the runtime to refuse one.
bool emulated(const std::string& name) {
  Dl_info here{}, there{};
  if (::dladdr(reinterpret_cast<void*>(&settings), &here) == 0) return true;
  void* const library = ::dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return true;  // inside a test program
  const bool is_runtime = ::dlsym(library, "cudaMalloc") != nullptr;
  void* const symbol = name.rfind("cuda", 0) == 0 ? ::dlsym(library, name.c_str()) : nullptr;
  const bool ours = symbol != nullptr && ::dladdr(symbol, &there) != 0 && there.dli_fbase == here.dli_fbase;
  ::dlclose(library);
  return ours || !is_runtime;
}

bool set_failures(Settings& to, const std::string& value) {
  for (const auto& one : words(value)) {
    const auto colon = one.find(':');
    if (colon == std::string::npos) return false;
    const auto which = number(one.substr(colon + 1), 1, UINT32_MAX);
    const auto name = one.substr(0, colon);
    if (!which || !emulated(name)) return false;
    to.failures[name] = *which;
  }
  return !value.empty();
}

const std::vector<Variable>& variables() {
  static const std::vector<Variable> all{
      {"STREAMS", "lazy or eager", either(&Settings::lazy, "lazy", "eager")},
      {"DEVICES", "a number from 0 to 8", set_devices},
      {"BYTES", "a number of bytes from 1048576 to 1099511627776, or a list of one for each device",
       set_bytes},
      {"SEED", "a number", natural(&Settings::seed, 0, UINT64_MAX)},
      {"CHECKS", "a list of races and unwritten, or nothing", set_checks},
      {"PTX", "newest or oldest", either(&Settings::newest_ptx, "newest", "oldest")},
      {"FAIL", "a list of NAME:N, NAME a function of the CUDA runtime and N the call that fails, from 1",
       set_failures},
      {"SENSORS", "the path of a file", path(&Settings::sensors)},
      {"TORCH", "the path of a library", path(&Settings::operators)},
      {"TRACE", "0 or 1", either(&Settings::trace, "1", "0")},
      {"STATISTICS", "0 or 1", either(&Settings::statistics, "1", "0")},
      {"TEST", "the name of a test", [](Settings&, const std::string&) { return true; }}};  // for run.sh
  return all;
}

void apply(Settings& to, const std::string& name, const std::string& value) {
  for (const auto& variable : variables()) {
    if (variable.name != name) continue;
    if (!variable.apply(to, value))
      refuse(text("EMULATED_GPU_", name, "=", value, ": it must be ", variable.right));
    return;
  }
  std::string all;
  for (const auto& variable : variables()) all += " EMULATED_GPU_" + variable.name;
  refuse(text("EMULATED_GPU_", name, "=", value, ": there is no such variable; there are", all));
}

Settings read() {
  Settings found;
  found.bytes.fill(16ULL << 30);
  constexpr std::string_view prefix = "EMULATED_GPU_";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const auto equals = line.find('=');
    if (line.substr(0, prefix.size()) != prefix || equals == std::string_view::npos) continue;
    apply(found, std::string(line.substr(prefix.size(), equals - prefix.size())),
          std::string(line.substr(equals + 1)));
  }
  return found;
}

}  // namespace

const Settings& settings() {
  static const Settings* const all =
      new Settings(read());  // never destroyed: calls come until the process has ended
  return *all;
}

}  // namespace emulated_gpu
