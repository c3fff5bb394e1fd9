/// What the contestants of a cell of the embedding suite train: two tables of word vectors, on pairs of a
/// text.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/steps/row_step_check.h"
#include "benchmarks/steps/step_suite.h"
#include "examples/word2vec/corpus.h"
#include "harness/sampler.h"
#include "speedtorch/kernels/steps/update_options.h"
#include "speedtorch/tables/table.h"

namespace stbench {

/// The text of a run: the user's, or that of the Debian package bible-kjv, which the build makes a file of.
struct Text {
  std::string path;
  std::string name;     ///< as reports have it: `text:<base name>@<8 hex digits of its SHA-256>`
  std::string refusal;  ///< why there is none, with the cure; empty where there is one
};
/// @param given the value of --text; empty: the standard one. Read once. @throws UsageError where a given one
/// cannot be read
const Text& text_of_run(const std::string& given);
/// The text that text_of_run() was last asked for.
const Text& text_in_use();

/// Learning rates that suit the loss, which is summed over a batch's pairs; of a training, the first one.
speedtorch::UpdateOptions training_options(const std::string& optimizer, std::int64_t batch);
/// Of these the suite has options.
const std::vector<std::string>& training_optimizers();

struct EmbeddingFixture final : StepFixture {
  EmbeddingFixture(const reports::Identity& id, const StepTerms& terms);
  [[nodiscard]] reports::Columns columns() const override;

  /// Both tables and their states as they were at first.
  void reset();
  /// The mean loss of a held-out pair.
  [[nodiscard]] double heldout_loss() const;

  /// A batch whose numbers are where the training is.
  [[nodiscard]] word2vec::Batch on_device(const word2vec::Batch& batch) const;

  /// One of the two: word vectors, or vectors of words as neighbours.
  struct Side {
    speedtorch::Table rows;
    std::vector<speedtorch::Table> state_rows;
    at::Tensor table;  ///< the same memory, as the case's device sees it
    std::vector<at::Tensor> states;
    [[nodiscard]] std::vector<at::Tensor> all() const;
  };

  reports::Identity id;
  std::uint64_t seed;
  speedtorch::UpdateOptions options;
  std::shared_ptr<const word2vec::Corpus> corpus;
  word2vec::Sampler training;
  word2vec::Batch heldout;
  double unigram_loss, zero_loss;
  std::array<word2vec::Batch, harness::index_sets> batches, device_batches;
  Side centers, contexts;
};

/// A way to train. After the samples each trains anew from the same start on the same pairs, its learning
/// rate falling evenly to nothing: what it learned must be better than what is known without the word beside.
class EmbeddingStepper : public Stepper {
 public:
  /// @param reference what a step of its optimizers must equal
  EmbeddingStepper(const reports::Identity& id, EmbeddingFixture& fixture,
                   const speedtorch::UpdateOptions& reference);

  void step(int set) override { train(fixture_.device_batches[static_cast<std::size_t>(set)]), ++steps_; }
  void remember(int set) override;
  harness::Check check(int set) override;
  std::string fingerprint(int set) override;
  void conclude(reports::Record& record) override;
  [[nodiscard]] std::int64_t payload_bytes() const override { return payload_; }
  [[nodiscard]] std::int64_t index_bytes() const override;

 protected:
  /// Makes the optimizers, for tables and states that are as at first.
  virtual void begin() = 0;
  virtual void train(const word2vec::Batch& batch) = 0;
  /// The learning rate of the batches that follow.
  virtual void set_rate(double rate) = 0;
  [[nodiscard]] virtual bool moves_all() const { return false; }

  EmbeddingFixture& fixture_;

 private:
  [[nodiscard]] const word2vec::Batch& batch(int set) const {
    return fixture_.batches[static_cast<std::size_t>(set)];
  }

  std::int64_t steps_ = 0, payload_ = 0;
  RowStepCheck centers_, contexts_;
};

}  // namespace stbench
