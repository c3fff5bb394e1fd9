/// Methods for models on a GPU: faults that the checks must catch there, and a right one whose work nothing
/// but the closing wait ends. Part of stbench_planted.
#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <utility>

#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/own_stream.h"
#include "speedtorch/rows/rows.h"

namespace stbench::planted_gpu_methods {
namespace {

Method on_gpu(std::string name, decltype(Method::to) to, decltype(Method::from) from) {
  return {.name = std::move(name),
          .summary = "planted fault",
          .role = harness::Role::peer,
          .applies = [](const reports::Identity& id) { return rows_move_on_a_gpu(id); },
          .to = std::move(to),
          .from = std::move(from)};
}

void gather(Arena& arena, int set) {
  speedtorch::gather_rows(arena.table(), arena.index(set), arena.model());
}
void scatter(Arena& arena, int set) {
  speedtorch::scatter_rows(arena.table(), arena.index(set), arena.values(set));
}

const RegisterMethod last_row_skipped{on_gpu(
    "gpu_last_row_skipped",
    [](Arena& arena, int set) {
      auto rest = arena.model().slice(0, 0, -1);
      speedtorch::gather_rows(arena.table(), arena.index(set).slice(0, 0, -1), rest);
    },
    [](Arena& arena, int set) {
      speedtorch::scatter_rows(arena.table(), arena.index(set).slice(0, 0, -1),
                               arena.values(set).slice(0, 0, -1));
    })};

/// Right: no other stream waits for its stream.
void on_own_stream(Arena& arena, const std::function<void()>& work) {
  arena.kept<OwnStream>([&] { return OwnStream(arena.model().device()); }).run(work);
}
const RegisterMethod own_stream{on_gpu(
    "gpu_own_stream", [](Arena& arena, int set) { on_own_stream(arena, [&] { gather(arena, set); }); },
    [](Arena& arena, int set) { on_own_stream(arena, [&] { scatter(arena, set); }); })};

/// Each call queues what the one before it should have queued.
struct Late {
  std::function<void()> work = [] {};
};
void one_call_late(Arena& arena, std::function<void()> work) {
  auto& late = arena.kept<Late>([] { return Late(); });
  std::exchange(late.work, std::move(work))();
}
const RegisterMethod missing_synchronise{on_gpu(
    "gpu_missing_synchronise",
    [](Arena& arena, int set) { one_call_late(arena, [&arena, set] { gather(arena, set); }); },
    [](Arena& arena, int set) { one_call_late(arena, [&arena, set] { scatter(arena, set); }); })};

/// From host memory by way of pinned memory, as `staged`, but without its waits: the host reads what the GPU
/// is still to write, and writes what the GPU is still to read.
const RegisterMethod staged_without_waits{[] {
  auto method = on_gpu(
      "gpu_staged_without_waits",
      [](Arena& arena, int set) {
        at::index_select_out(arena.staging(), arena.host_table(), 0, arena.host_index(set));
        arena.model().copy_(arena.staging(), /*non_blocking=*/true);
        arena.staging().zero_();
      },
      [](Arena& arena, int set) {
        arena.staging().copy_(arena.values(set), /*non_blocking=*/true);
        arena.host_table().index_copy_(0, arena.host_index(set), arena.staging());
      });
  method.applies = [](const reports::Identity& id) {
    return id.device != "cpu" && !rows_move_on_a_gpu(id) && id.index_dtype == "int64";
  };
  return method;
}()};

}  // namespace
}  // namespace stbench::planted_gpu_methods
