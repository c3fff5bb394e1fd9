/// Methods with one fault each, for the sharded suite of stbench_planted.
#include <signal.h>

#include <stdexcept>

#include "benchmarks/sharded/method.h"

namespace stbench::planted_sharded {
namespace {

/// Ours, and then what the fault does to it on the last rank. The first run is checked whole, so that faults
/// of later runs must be found in samples.
class Faulty : public RankGather {
 public:
  using RankGather::RankGather;
  void run(int set) final {
    ++runs_;
    strike_before();
    cell().sharded().gather(cell().index(set), out());
    if (is_last_rank()) spoil(set);
  }

 protected:
  virtual void strike_before() {}
  virtual void spoil(int /*set*/) {}
  [[nodiscard]] bool is_last_rank() const { return cell().rank() == cell().ranks() - 1; }
  [[nodiscard]] int runs() const { return runs_; }

 private:
  int runs_ = 0;
};

class OneWrongByte final : public Faulty {
  using Faulty::Faulty;
  void spoil(int /*set*/) override {
    static_cast<std::byte*>(out().data_ptr())[out().nbytes() / 2] ^= std::byte{1};
  }
};

class SwappedRows final : public Faulty {
  using Faulty::Faulty;
  void spoil(int /*set*/) override {
    const auto first = out()[0].clone();
    out()[0].copy_(out()[1]);
    out()[1].copy_(first);
  }
};

/// Right in the run that is checked whole.
class LaterRowsWrong final : public Faulty {
  using Faulty::Faulty;
  void spoil(int /*set*/) override {
    if (runs() > 1) out().fill_(1);
  }
};

class LeftOut final : public Faulty {
  using Faulty::Faulty;
  void spoil(int /*set*/) override { poison(); }
};

/// From the second run on, in the small cells only.
template <class Strike>
class Struck final : public Faulty {
  using Faulty::Faulty;
  void strike_before() override {
    if (runs() > 1 && cell().batch() < 600) Strike()(cell().rank(), cell().ranks());
  }
};

struct Dies {
  void operator()(int rank, int ranks) const {
    if (rank == ranks - 1) ::raise(SIGKILL);
  }
};
struct Stops {
  void operator()(int rank, int ranks) const {
    if (rank == ranks - 1) ::raise(SIGSTOP);
  }
};
struct Throws {
  void operator()(int rank, int ranks) const {
    if (rank == ranks - 1) throw std::runtime_error("planted: no rows today");
  }
};
struct ThrowsOnRank0 {
  void operator()(int rank, int /*ranks*/) const {
    if (rank == 0) throw std::runtime_error("planted: no rows today");
  }
};

template <class Gather>
ShardedMethod planted(const char* name) {
  return {.name = name,
          .summary = "planted fault",
          .role = harness::Role::peer,
          .asked_only = true,
          .open = opened<Gather>};
}

const RegisterShardedMethod one_wrong_byte(planted<OneWrongByte>("one_wrong_byte"));
const RegisterShardedMethod swapped_rows(planted<SwappedRows>("two_rows_swapped"));
const RegisterShardedMethod later_rows_wrong(planted<LaterRowsWrong>("later_rows_wrong"));
const RegisterShardedMethod left_out(planted<LeftOut>("left_out"));
const RegisterShardedMethod dies(planted<Struck<Dies>>("rank_dies"));
const RegisterShardedMethod stops(planted<Struck<Stops>>("rank_stops"));
const RegisterShardedMethod throws(planted<Struck<Throws>>("rank_throws"));
const RegisterShardedMethod throws_on_rank_0(planted<Struck<ThrowsOnRank0>>("rank_0_throws"));

}  // namespace
}  // namespace stbench::planted_sharded
