#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>

#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/tables/memory_plan.h"
#include "speedtorch/tables/model_factory.h"

using speedtorch::Placement;
using speedtorch::Table;
constexpr std::int64_t rows = 20'000, dim = 32;

/// A model of one weight, whose table and Adamax's two states are where a plan has them.
struct Model {
  explicit Model(const speedtorch::MemoryPlan& plan)
      : optimizer({weight}, {.lr = 0.2}),
        vectors(weight, zeros(plan, "words")),
        states(optimizer, weight, {zeros(plan, "words state 1"), zeros(plan, "words state 2")}) {}

  static Table zeros(const speedtorch::MemoryPlan& plan, const std::string& name) {
    return Table::filled({rows, dim}, at::kFloat, speedtorch::Zeros{},
                         {.placement = plan.placement_of(name)});
  }
  void train(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step < last; ++step) {
      // Each step's batch is its own, whoever did those before it.
      at::manual_seed(static_cast<std::uint64_t>(step));
      const at::Tensor batch = at::randint(0, 2'000, {4'096}, at::kLong);
      vectors.before_forward_pass(batch);
      states.before_forward_pass(vectors);
      at::embedding(weight, vectors.positions().positives).sub(1).pow(2).sum().backward();
      optimizer.step();
      states.after_optimizer_step();
      vectors.after_optimizer_step();
    }
  }
  void save() const { vectors.save_npy("words.npy"), states.save("words_states"); }
  void load() { vectors.load_npy("words.npy"), states.load("words_states"); }

  at::Tensor weight = at::zeros({1, dim}).requires_grad_();
  speedtorch::optim::Adamax optimizer;
  speedtorch::ModelFactory vectors;
  speedtorch::OptimizerFactory states;
};

int main() {
  // No GPU has room, and memory for two of the three tables of 2,560,000 bytes: the last goes into a file.
  const speedtorch::PlannedTable words{.name = "words",
                                       .rows = rows,
                                       .dim = dim,
                                       .states = 2,
                                       .wanted = {Placement::device, Placement::hugepage, Placement::mapped}};
  const auto plan = speedtorch::plan_memory({words}, {.host = 6'000'000, .file = 1'000'000'000});
  std::cout << plan.text();

  std::filesystem::remove_all("words_states");  // of an earlier run
  {
    Model model(plan);
    model.train(0, 30);
    model.save();
  }
  Model resumed(plan), whole(plan);
  resumed.load();
  resumed.train(30, 60);
  whole.train(0, 60);
  const at::Tensor learned = resumed.vectors.host_copy();
  std::cout << "as if it had not been interrupted: " << at::equal(learned, whole.vectors.host_copy()) << '\n'
            << "learned: " << ((learned.slice(0, 0, 2'000) - 1).abs().max().item<float>() < 0.2F) << '\n';
  return 0;
}
