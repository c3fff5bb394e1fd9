/// Training by this library: two tables and their states where they live, rows gathered for the forward pass
/// and updated in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "corpus.h"
#include "speedtorch/kernels/steps/update_options.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/tables/table.h"

namespace word2vec {

struct TrainingOptions {
  std::int64_t dim = 100;
  speedtorch::TableOptions home = {};
  DrawOptions draw = {};
  speedtorch::AdamaxOptions adamax = {.lr = 0.01};
  std::uint64_t seed = 1;
};

class Training {
 public:
  /// @param corpus must outlive this
  Training(const Corpus& corpus, const TrainingOptions& options);

  /// The next batch of pairs.
  void step();
  [[nodiscard]] std::int64_t steps() const { return centers_.steps(); }
  [[nodiscard]] std::int64_t pairs_per_step() const { return sampler_.options().pairs; }

  /// [words, dim]: of word i of the vocabulary in row i.
  [[nodiscard]] const at::Tensor& vectors() const { return centers_.table(); }

  [[nodiscard]] double heldout_loss() const;
  [[nodiscard]] double unigram_loss() const { return sampler_.unigram_loss(heldout_); }
  [[nodiscard]] double zero_loss() const;

  /// All that the next step depends on, as one file that is replaced whole. @throws speedtorch::FileError
  void save(const std::string& file) const;
  /// True where there is a checkpoint of such a training, which is then gone on with; it must be of the same
  /// text, options and seed. @throws TextError where it is of another, or cut; nothing was changed then
  bool load(const std::string& file);

 private:
  [[nodiscard]] std::string kind() const;
  [[nodiscard]] std::int64_t table_bytes() const;

  const Corpus& corpus_;
  TrainingOptions options_;
  Sampler sampler_;
  Batch heldout_;
  speedtorch::SparseRows centers_, contexts_;
};

}  // namespace word2vec
