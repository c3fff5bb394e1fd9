/// One case at a peer: hands over its tensors and takes its samples by the peer's clock.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/peers/peer_process.h"
#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/shared_tensor.h"

namespace stbench {

class PeerCell {
 public:
  /// @param operands in shared memory, unless the table is a file
  PeerCell(std::string peer, std::shared_ptr<Operands> operands, TransferCase one);
  /// The peer unmaps the tensors.
  ~PeerCell();
  PeerCell(const PeerCell&) = delete;
  PeerCell& operator=(const PeerCell&) = delete;

  /// Runs `repeat` operations over rotating sets from `first` on; the first call hands the cell over.
  /// @returns their seconds by the peer's clock (CLOCK_MONOTONIC around the operations and the closing
  /// synchronise). Requests, answers and copies between device and host are not included
  /// @throws PeerError, also if the seconds cannot be true
  double run(int first, int repeat);

 private:
  void hand_over();
  [[nodiscard]] nlohmann::ordered_json request();
  nlohmann::ordered_json shared(const at::Tensor& tensor) const;
  nlohmann::ordered_json index_of(int set);
  [[nodiscard]] bool exchanges() const;
  nlohmann::ordered_json exchanged(const at::Tensor& like, SharedTensor& buffer);
  double ask(int first, int repeat);

  std::string peer_;
  std::shared_ptr<Operands> operands_;
  TransferCase case_;
  std::int64_t number_;
  std::shared_ptr<PeerProcess> process_;
  // With a model on a GPU or a table in a file, results, values and indices go through these buffers.
  SharedTensor result_;
  std::array<SharedTensor, harness::index_sets> values_, index_;
};

/// A method whose rows are moved by the peer NAME in its own process.
Method peer_method(const std::string& name, const std::string& summary);

}  // namespace stbench
