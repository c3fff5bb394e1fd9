/// A step of the optimizer suite in the process of a Python peer, on the peer's own tables.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/peers/peer_process.h"
#include "benchmarks/transfer/shared_tensor.h"

namespace stbench {

/// The peer allocates its tables as its users do and times its step by its own clock.
class PeerRowStep : public RowStepper {
 public:
  PeerRowStep(const reports::Identity& id, OptimizerFixture& fixture, std::string_view peer);
  ~PeerRowStep() override;

  void step(int set) override { timed_step(set); }
  [[nodiscard]] bool self_timed() const override { return true; }
  double timed_step(int set) override;

 private:
  [[nodiscard]] ReadRows reader() override;
  [[nodiscard]] nlohmann::ordered_json request(const reports::Identity& id) const;

  std::shared_ptr<PeerProcess> process_;
  std::string cell_;
  SharedTensor grad_, probe_, seen_;
  std::vector<SharedTensor> index_;
};

/// True for cases that a Python peer's step takes part in: its tables are as LibTorch allocates them.
bool on_libtorch_tables(const reports::Identity& id);

}  // namespace stbench
