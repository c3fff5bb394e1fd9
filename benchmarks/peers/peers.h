/// The peers of a run: which can be had, their processes, and the cells that they work on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/peers/peer_process.h"

namespace stbench {

/// One process a peer, started when it is first needed and kept to the end of the run: importing torch takes
/// seconds.
class Peers {
 public:
  /// The peers of this run of the program.
  static Peers& of_this_run();

  /// The run's settings for the processes.
  /// @param cpus of which a case with n cores takes the first n; empty: no affinity
  /// @param timeout_s of a step; a peer gets a quarter of it for each answer, so that starting it, handing
  /// over a cell and running it end before the step's own limit. 0 = none
  void configure(std::vector<int> cpus, double timeout_s);

  /// Why the peer cannot take part here, with the cure; empty if it can, or if it fails in a way that
  /// is no cause to leave it out. Starts it.
  std::string refusal(const std::string& name);

  /// The peer, started anew where it ended. @throws PeerError
  std::shared_ptr<PeerProcess> running(const std::string& name);

  /// A process of the peer that is nobody else's. @throws PeerError
  std::shared_ptr<PeerProcess> another(const std::string& name, PeerTerms terms);

  /// The versions of each peer that was started, by its name.
  [[nodiscard]] nlohmann::ordered_json versions() const;
  /// The first of the cores, as many as a case has.
  [[nodiscard]] std::vector<int> cpus(std::int64_t cores) const {
    return {cpus_.begin(), cpus_.begin() + std::min<std::ptrdiff_t>(cores, std::ssize(cpus_))};
  }

 private:
  std::vector<int> cpus_;
  double limit_s_ = 0;
  std::map<std::string, std::shared_ptr<PeerProcess>> processes_;
  /// Why a peer cannot be had, or did not begin as it should: trying again would only cost the same time
  /// again.
  std::map<std::string, std::string> missing_, never_began_;
  std::map<std::string, nlohmann::ordered_json> versions_;
};

}  // namespace stbench
