/// What people write by hand to gather rows of a file, for the methods of `mapped` tables.
#pragma once

#include <memory>

#include "benchmarks/transfer/arena.h"

namespace stbench {

/// Where these have a meaning: rows of a file into a model tensor on the host.
bool reads_a_file(const reports::Identity& id);

/// A memcpy a row from the table's own mapping, on all threads: whoever touches a cold row waits for it.
void copy_from_mapping(Arena& arena, int set);

/// A pread a row into its place, on all threads.
void pread_rows(Arena& arena, int set);

/// The plain io_uring loop: one ring, a request a row in the order of the index, as many in flight as
/// FileRows has; each completion makes room for the next.
class RingLoop {
 public:
  RingLoop();
  /// Why it cannot be had; empty where it can.
  static std::string refusal();
  void gather(Arena& arena, int set);

 private:
  struct Ring;
  std::shared_ptr<Ring> ring_;
};

}  // namespace stbench
