/// Gathers from a file as people write them by hand, for the methods of `mapped` tables.
#pragma once

#include <memory>

#include "benchmarks/transfer/operands.h"

namespace stbench {

/// True for rows of a file into a model tensor on the host, which these support.
bool reads_a_file(const TransferCase& one);

/// One pread per row, on all threads.
void pread_rows(Operands& operands, int set);

/// The plain io_uring loop: one ring, one request per row in the order of the index, as many in flight as
/// FileRows has. Each completion makes room for the next request.
class RingLoop {
 public:
  RingLoop();
  /// Why this machine has no ring; empty if it has.
  static std::string refusal();
  void gather(Operands& operands, int set);

 private:
  struct Ring;
  std::shared_ptr<Ring> ring_;
};

}  // namespace stbench
