#include "benchmarks/peers/peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "benchmarks/suite/paths.h"

namespace stbench {
namespace {

constexpr double answers_a_step = 4;  // start, prepare, sample; and some room

/// Empty is as good as not set.
bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::string variable_or(const char* name, const char* standard) {
  return is_set(name) ? std::getenv(name) : standard;
}

/// The interpreter: STBENCH_PYTHON, which ./stbench sets, else the python3 on the PATH.
std::string python() { return variable_or("STBENCH_PYTHON", "python3"); }

std::string python_in_words() {
  return is_set("STBENCH_PYTHON") ? "the Python that STBENCH_PYTHON names" : "python3 on the PATH";
}

std::string script(const std::string& name) {
  return fmt::format("{}/{}_peer.py", variable_or("STBENCH_PEERS", peers_folder), name);
}

/// -B: nothing is written beside the scripts.
std::vector<std::string> command(const std::string& name) { return {python(), "-B", script(name)}; }

/// The program can be elsewhere than where it was built. Python itself would say so too, but as the failure
/// of each case.
std::string script_refusal(const std::string& name) {
  std::error_code no_matter;
  if (std::filesystem::exists(script(name), no_matter)) return {};
  return fmt::format("{} has no {}_peer.py; set STBENCH_PEERS to the folder scripts/peers",
                     is_set("STBENCH_PEERS") ? "the folder that STBENCH_PEERS names"
                                             : "the folder that stbench was built from",
                     name);
}

}  // namespace

Peers& Peers::of_this_run() {
  static Peers peers;
  return peers;
}

void Peers::configure(std::vector<int> cpus, double timeout_s) {
  cpus_ = std::move(cpus);
  limit_s_ = timeout_s / answers_a_step;
}

std::string Peers::refusal(const std::string& name) {
  if (const auto known = missing_.find(name); known != missing_.end()) return known->second;
  if (const auto reason = script_refusal(name); !reason.empty()) return missing_[name] = reason;
  try {
    running(name);
  } catch (const PeerMissing& missing) {
    return missing_[name] = fmt::format(
               "{}: {}; set STBENCH_PYTHON to a Python that has it (scripts/setup --peers makes one)",
               python_in_words(), missing.what());
  } catch (const PeerError&) {
    return {};  // it is there and does not work: a failed case says so
  }
  return {};
}

std::shared_ptr<PeerProcess> Peers::running(const std::string& name) {
  if (const auto failed = never_began_.find(name); failed != never_began_.end())
    throw PeerError(failed->second);
  auto& process = processes_[name];
  if (process && process->alive()) return process;
  try {
    process = std::make_shared<PeerProcess>(command(name), PeerTerms{.limit_s = limit_s_});
  } catch (const PeerMissing&) {
    throw;  // refusal() keeps it
  } catch (const PeerError& error) {
    never_began_[name] = error.what();
    throw;
  }
  versions_[name] = process->versions();
  return process;
}

std::shared_ptr<PeerProcess> Peers::another(const std::string& name, PeerTerms terms) {
  auto process = std::make_shared<PeerProcess>(command(name), std::move(terms));
  versions_[name] = process->versions();
  return process;
}

nlohmann::ordered_json Peers::versions() const {
  auto all = nlohmann::ordered_json::object();
  for (const auto& [name, versions] : versions_) all[name] = versions;
  return all;
}

}  // namespace stbench
