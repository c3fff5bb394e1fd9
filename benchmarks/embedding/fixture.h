/// The fixture of a cell of the embedding suite: two tables of word vectors, and pairs of a text.
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

/// The text of a run: the user's, or that of the Debian package bible-kjv, which the build writes to a file.
struct Text {
  std::string path;
  std::string name;     ///< as reports have it: `text:<base name>@<8 hex digits of its SHA-256>`
  std::string refusal;  ///< why there is none, with the cure; empty if there is one
};
/// @param given the value of --text; empty: the standard text. Reads a file once. @throws UsageError if it
/// cannot be read
const Text& text_of_run(const std::string& given);
/// The text that text_of_run() was last asked for.
const Text& text_in_use();

/// The options of an optimizer. Its learning rate suits the loss, which is summed over the pairs of a batch;
/// training starts with it.
speedtorch::UpdateOptions training_options(const std::string& optimizer, std::int64_t batch);
/// The optimizers of the suite.
const std::vector<std::string>& training_optimizers();

struct EmbeddingFixture final : StepFixture {
  EmbeddingFixture(const reports::Identity& id, const StepTerms& terms);
  [[nodiscard]] reports::Columns columns() const override;

  /// Sets both tables and their states to their initial values.
  void reset();
  /// The mean loss of a held-out pair.
  [[nodiscard]] double heldout_loss() const;

  /// The batch on the case's device.
  [[nodiscard]] word2vec::Batch on_device(const word2vec::Batch& batch) const;

  /// One of the two tables: word vectors, or vectors of words as neighbours.
  struct Side {
    speedtorch::Table rows;
    std::vector<speedtorch::Table> state_rows;
    at::Tensor table;  ///< the same memory as the case's device sees it
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

/// A training method. After the samples, each method trains again from the same start on the same pairs, with
/// a learning rate that falls linearly to zero. Its loss must be below that of word frequencies alone.
class EmbeddingStepper : public Stepper {
 public:
  /// @param reference the optimizer that its steps must equal
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
  /// Makes the optimizers, for tables and states at their initial values.
  virtual void begin() = 0;
  virtual void train(const word2vec::Batch& batch) = 0;
  /// Sets the learning rate of the following batches.
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
