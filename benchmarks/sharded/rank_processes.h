/// Processes of this program that are the other ranks of a group on this host.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "speedtorch/system/descriptor.h"

namespace stbench {

/// The first word of the command line of such a process.
inline constexpr auto rank_command = "sharded-rank";

/// The work of a process whose words begin with rank_command. @returns its exit status
int serve_started_rank(const std::vector<std::string>& words);

/// Starts ranks 1 to size - 1, and kills those that are left when it is destroyed, or when this process ends.
class RankProcesses {
 public:
  /// @param timeout the longest wait of a rank for another one
  /// @throws std::runtime_error with the system's reason if a process cannot be started
  RankProcesses(int size, std::chrono::milliseconds timeout);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Where rank 0 listens. No other process gets it meanwhile.
  [[nodiscard]] int port() const { return port_; }

  /// After the group was lost: which rank ended and why, or empty if all are alive. Waits some seconds for
  /// one that is about to end.
  [[nodiscard]] std::string how_one_ended();

 private:
  struct Process {
    pid_t pid;
    speedtorch::Descriptor messages;  ///< its standard error
    int status = 0;
    bool ended = false;
  };
  void start(int rank, int size, std::chrono::milliseconds timeout);
  [[nodiscard]] const Process* culprit() const;
  [[nodiscard]] std::string description(const Process& process) const;

  speedtorch::Descriptor held_port_;
  int port_ = 0;
  std::vector<Process> processes_;
};

}  // namespace stbench
