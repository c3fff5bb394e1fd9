// Data-parallel training with MPI: each process takes its share of a batch, and the gradient buffer of its
// contiguous parameters takes part in one collective operation. Every process compares with its own model
// that sees the whole batch. Run by contiguous_mpi_test.py; exits with 1 if they differ.
#include <ATen/ATen.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "speedtorch/contiguous/optimizer.h"
#include "tests/worse.h"

namespace {

using speedtorch::ContiguousOptimizer;
constexpr std::int64_t kBatch = 8;

/// The same numbers in each process.
struct Model {
  at::Tensor first = at::randn({6, 4}, at::kDouble).t().detach().set_requires_grad(true);
  at::Tensor second = at::randn({6}, at::kDouble).set_requires_grad(true);
  at::Tensor sometimes =
      at::randn({6}, at::kDouble).set_requires_grad(true);  // used by the first process only

  [[nodiscard]] at::Tensor loss(const at::Tensor& batch, std::int64_t first_row) const {
    auto out = batch.matmul(first).tanh() * second;
    if (first_row == 0) out = at::cat({out.slice(0, 0, 1) * sometimes, out.slice(0, 1)});
    return out.pow(2).sum() / static_cast<double>(kBatch);
  }
  [[nodiscard]] std::vector<at::Tensor> parameters() const { return {first, second, sometimes}; }
};

void sum_over_processes(ContiguousOptimizer& optimizer) {
  optimizer.parameters().prepare_step();
  for (const auto& bucket : optimizer.parameters().buckets()) {
    MPI_Allreduce(MPI_IN_PLACE, bucket.gradient.data_ptr(), static_cast<int>(bucket.gradient.numel()),
                  MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  optimizer.parameters().gradients_written();
}

/// True if all processes have the same bytes.
bool same_everywhere(const at::Tensor& tensor) {
  auto from_first = tensor.detach().clone();
  MPI_Bcast(from_first.data_ptr(), static_cast<int>(from_first.numel()), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return std::memcmp(from_first.data_ptr(), tensor.const_data_ptr(), tensor.nbytes()) == 0;
}

/// The largest difference from the process that saw the whole batch. -1 if processes differ, if a parameter
/// never moved, or if the model's tensors are no longer in the buffers.
/// @param to_none set gradients to none after each step, torch's default, instead of zeroing them
double train(int rank, int processes, bool to_none) {
  at::manual_seed(1);
  const Model ours;
  at::manual_seed(1);
  const Model whole;
  std::vector<at::Tensor> start;
  for (const auto& parameter : whole.parameters()) start.push_back(parameter.detach().clone());
  ContiguousOptimizer optimizer(ours.parameters(), speedtorch::AdamWOptions{.lr = 0.05});
  ContiguousOptimizer reference(whole.parameters(), speedtorch::AdamWOptions{.lr = 0.05});
  const std::int64_t share = kBatch / processes;
  for (int step = 0; step < 10; ++step) {
    const auto batch = at::randn({kBatch, 4}, at::kDouble);
    ours.loss(batch.slice(0, rank * share, (rank + 1) * share), rank * share).backward();
    sum_over_processes(optimizer);
    optimizer.step({.max_norm = 1, .zero_grad = !to_none});
    for (const auto& parameter : ours.parameters())
      if (to_none) parameter.mutable_grad() = at::Tensor();
    whole.loss(batch, 0).backward();
    reference.step({.max_norm = 1, .zero_grad = true});
  }
  for (const auto& bucket : optimizer.parameters().buckets()) {
    if (!same_everywhere(bucket.data)) return -1;
  }
  optimizer.parameters().prepare_step();  // reattaches gradients that were set to none
  if (!optimizer.parameters().buffer_is_valid()) return -1;
  double worst = 0;
  for (std::size_t k = 0; k < ours.parameters().size(); ++k) {
    if ((ours.parameters()[k].detach() == start[k]).any().item<bool>()) return -1;
    const auto difference = ours.parameters()[k].detach() - whole.parameters()[k].detach();
    worst = stbench::test::worse(worst, difference.abs().max().item<double>());
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int processes = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  const double zeroed = train(rank, processes, false);
  const double to_none = train(rank, processes, true);
  const double worst = std::min(zeroed, to_none) < 0 ? -1 : stbench::test::worse(zeroed, to_none);
  std::printf("process %d of %d: %.3g from the whole batch\n", rank, processes, worst);
  MPI_Finalize();
  return worst >= 0 && worst < 1e-12 ? 0 : 1;
}
