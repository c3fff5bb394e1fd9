#include "training.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "skip_gram.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/tables/fills.h"

namespace word2vec {
namespace {

constexpr std::int64_t heldout_pairs = 10'000;

Batch heldout_batch(const Corpus& corpus, const TrainingOptions& options) {
  auto draw = options.draw;
  draw.pairs = heldout_pairs;
  return Sampler(corpus, corpus.held_out(), draw, options.seed + 1).draw(0);
}

speedtorch::SparseRows new_side(const Corpus& corpus, const TrainingOptions& options, std::uint64_t seed) {
  const double most = 0.5 / static_cast<double>(options.dim);
  const auto table = speedtorch::Table::filled({std::ssize(corpus.vocabulary()), options.dim}, at::kFloat,
                                               speedtorch::Uniform{-most, most, seed}, options.home);
  return {table.host_tensor(), options.adamax, options.home};
}

at::Tensor rows_of(const at::Tensor& table, const at::Tensor& index) {
  auto rows = at::empty({index.numel(), table.size(1)}, table.options());
  speedtorch::gather_rows(table, index, rows);
  return rows;
}

std::vector<at::Tensor> tables_of(const speedtorch::SparseRows& side) {
  std::vector<at::Tensor> tables{side.table()};
  for (const auto& state : side.states()) tables.push_back(state.table);
  return tables;
}

}  // namespace

Training::Training(const Corpus& corpus, const TrainingOptions& options)
    : corpus_(corpus),
      options_(options),
      sampler_(corpus, corpus.training(), options.draw, options.seed),
      heldout_(heldout_batch(corpus, options)),
      centers_(new_side(corpus, options, options.seed)),
      contexts_(new_side(corpus, options, options.seed + 1)) {}

void Training::step() {
  const auto batch = sampler_.draw(steps());
  const auto centers = rows_of(centers_.table(), batch.centers).set_requires_grad(true);
  const auto contexts = rows_of(contexts_.table(), batch.contexts).set_requires_grad(true);
  loss_of(centers, contexts.view({batch.contexts.size(0), batch.contexts.size(1), options_.dim})).backward();
  centers_.step(batch.centers, centers.grad());
  contexts_.step(batch.contexts, contexts.grad());
}

double Training::heldout_loss() const {
  const at::NoGradGuard no_grad;
  const auto contexts = rows_of(contexts_.table(), heldout_.contexts).view({heldout_pairs, -1, options_.dim});
  return loss_of(rows_of(centers_.table(), heldout_.centers), contexts).item<double>() / heldout_pairs;
}

double Training::zero_loss() const { return word2vec::zero_loss(options_.draw.negatives); }

/// The settings that must be the same for a training to go on, as a line of text.
std::string Training::kind() const {
  std::size_t words = 0, tokens = 0;
  for (const auto& word : corpus_.vocabulary()) words = words * 31 + std::hash<std::string>()(word);
  for (const auto token : corpus_.training()) tokens = tokens * 31 + static_cast<std::size_t>(token);
  const auto& [pairs, negatives, window, subsample] = options_.draw;
  const auto& adamax = options_.adamax;
  std::ostringstream text;
  text << "word2vec 2 words " << corpus_.vocabulary().size() << ' ' << words << " tokens "
       << corpus_.training().size() << ' ' << tokens << " dim " << options_.dim << " pairs " << pairs
       << " negatives " << negatives << " window " << window << " subsample " << subsample << " seed "
       << options_.seed << " lr " << adamax.lr << " betas " << adamax.betas.first << ' '
       << adamax.betas.second << " eps " << adamax.eps << '\n';
  return text.str();
}

/// The bytes of both tables and their states.
std::int64_t Training::table_bytes() const {
  std::size_t bytes = 0;
  for (const auto* side : {&centers_, &contexts_}) {
    for (const auto& table : tables_of(*side)) bytes += table.nbytes();
  }
  return static_cast<std::int64_t>(bytes);
}

void Training::save(const std::string& name) const {
  speedtorch::Replacement file(name);
  file.append(kind() + std::to_string(steps()) + '\n');
  for (const auto* side : {&centers_, &contexts_}) {
    for (const auto& table : tables_of(*side))
      file.append({static_cast<const char*>(table.const_data_ptr()), table.nbytes()});
  }
  file.publish();
}

bool Training::load(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  if (!file && std::filesystem::exists(name)) throw TextError("the checkpoint cannot be read");
  if (!file) return false;
  std::string line;
  std::getline(file, line);
  if (line + '\n' != kind())
    throw TextError("the checkpoint is of another training:\n" + line +
                    "\nremove it, or name another with --out");
  std::int64_t steps = -1;
  file >> steps;
  file.get();
  // Before anything is read over what is there.
  const auto rest = static_cast<std::int64_t>(std::filesystem::file_size(name)) - file.tellg();
  if (!file || steps < 0 || rest != table_bytes())
    throw TextError("the checkpoint is cut, or longer than it should be; remove it");
  for (auto* side : {&centers_, &contexts_}) {
    for (const auto& table : tables_of(*side))
      file.read(static_cast<char*>(table.mutable_data_ptr()), static_cast<std::streamsize>(table.nbytes()));
    side->set_steps(steps);
  }
  if (!file) throw TextError("the checkpoint cannot be read");
  return true;
}

}  // namespace word2vec
