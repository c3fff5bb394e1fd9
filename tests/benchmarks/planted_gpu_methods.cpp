/// Methods for models on a GPU: faults that the checks must catch there, and a right one whose work nothing
/// but the closing wait ends. Part of stbench_planted.
#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <utility>

#include "benchmarks/transfer/concurrent.h"
#include "speedtorch/rows/rows.h"

namespace stbench::planted_gpu_methods {
namespace {

Method on_gpu(std::string name, decltype(Method::to) to, decltype(Method::from) from) {
  return {.name = std::move(name),
          .summary = "planted fault",
          .role = harness::Role::peer,
          .supports = rows_move_on_a_gpu,
          .to = std::move(to),
          .from = std::move(from)};
}

void gather(Operands& operands, int set) {
  speedtorch::gather_rows(operands.table(), operands.index(set), operands.model());
}
void scatter(Operands& operands, int set) {
  speedtorch::scatter_rows(operands.table(), operands.index(set), operands.values(set));
}

const RegisterMethod last_row_skipped{on_gpu(
    "gpu_last_row_skipped",
    [](Operands& operands, int set) {
      auto rest = operands.model().slice(0, 0, -1);
      speedtorch::gather_rows(operands.table(), operands.index(set).slice(0, 0, -1), rest);
    },
    [](Operands& operands, int set) {
      speedtorch::scatter_rows(operands.table(), operands.index(set).slice(0, 0, -1),
                               operands.values(set).slice(0, 0, -1));
    })};

/// Does its work the first time only.
struct Done {
  bool once = false;
};
void only_once(Operands& operands, const std::function<void()>& work) {
  if (!std::exchange(operands.kept<Done>([] { return Done(); }).once, true)) work();
}
const RegisterMethod gathers_once{on_gpu(
    "gpu_gathers_once",
    [](Operands& operands, int set) { only_once(operands, [&] { gather(operands, set); }); }, scatter)};
const RegisterMethod scatters_once{on_gpu("gpu_scatters_once", gather, [](Operands& operands, int set) {
  only_once(operands, [&] { scatter(operands, set); });
})};

/// Right: no other stream waits for its stream.
void on_own_stream(Operands& operands, const std::function<void()>& work) {
  operands.kept<Beside>([&] { return Beside(operands.model().device()); }).run(work);
}
const RegisterMethod own_stream{on_gpu(
    "gpu_own_stream",
    [](Operands& operands, int set) { on_own_stream(operands, [&] { gather(operands, set); }); },
    [](Operands& operands, int set) { on_own_stream(operands, [&] { scatter(operands, set); }); })};

/// Each call queues what the one before it should have queued.
struct Late {
  std::function<void()> work = [] {};
};
void one_call_late(Operands& operands, std::function<void()> work) {
  auto& late = operands.kept<Late>([] { return Late(); });
  std::exchange(late.work, std::move(work))();
}
const RegisterMethod missing_synchronise{on_gpu(
    "gpu_missing_synchronise",
    [](Operands& operands, int set) { one_call_late(operands, [&operands, set] { gather(operands, set); }); },
    [](Operands& operands, int set) {
      one_call_late(operands, [&operands, set] { scatter(operands, set); });
    })};

/// From host memory by way of pinned memory, as `staged`, but without its waits: the host reads what the GPU
/// is still to write, and writes what the GPU is still to read.
const RegisterMethod staged_without_waits{[] {
  auto method = on_gpu(
      "gpu_staged_without_waits",
      [](Operands& operands, int set) {
        at::index_select_out(operands.staging(), operands.host_table(), 0, operands.host_index(set));
        operands.model().copy_(operands.staging(), /*non_blocking=*/true);
        operands.staging().zero_();
      },
      [](Operands& operands, int set) {
        operands.staging().copy_(operands.values(set), /*non_blocking=*/true);
        operands.host_table().index_copy_(0, operands.host_index(set), operands.staging());
      });
  method.supports = [](const TransferCase& one) {
    return one.on_gpu() && !rows_move_on_a_gpu(one) && one.index_dtype == c10::kLong;
  };
  return method;
}()};

}  // namespace
}  // namespace stbench::planted_gpu_methods
