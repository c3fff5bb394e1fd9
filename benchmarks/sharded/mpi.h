/// The MPI that started the ranks, by the standard binary interface of MPI 5.0. It is loaded when a method
/// asks for it, so a build needs no MPI.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stbench {

class Mpi {
 public:
  /// Why this process has no MPI: its ranks were not started by one, or the library is missing. Empty if it
  /// has.
  static std::string refusal();

  /// The process's MPI. The first call starts it, by all ranks together.
  /// @throws std::runtime_error with refusal(); if MPI numbers the ranks otherwise; or with MPI's own words
  static Mpi& started(int rank, int size);
  /// Ends it, by all ranks together, if it was started. A process that ends without this is an error for
  /// MPI's launcher.
  static void end();

  /// Sends bytes to each rank and receives bytes of each. @param to, from bytes of each rank's part, which
  /// lie one after the other. @throws std::runtime_error with MPI's own words
  void all_to_all(const void* send, const std::vector<std::int64_t>& to, void* receive,
                  const std::vector<std::int64_t>& from) const;
};

}  // namespace stbench
