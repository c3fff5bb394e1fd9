#include "benchmarks/embedding/fixture.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>

#include "benchmarks/steps/libtorch_optimizer.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/paths.h"
#include "examples/word2vec/skip_gram.h"
#include "harness/errors.h"
#include "harness/interrupt.h"
#include "harness/sha256.h"
#include "reports/error.h"
#include "reports/files/file.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/tables/fills.h"

namespace stbench {
namespace {

using word2vec::Batch;
using word2vec::Corpus;

Text& text_slot() {
  static Text text;
  return text;
}

/// The corpus of the latest cell: cells of one vocabulary follow each other.
std::shared_ptr<const Corpus> corpus_of(const std::string& path, std::int64_t rows) {
  static std::pair<std::string, std::int64_t> key;
  static std::shared_ptr<const Corpus> corpus;
  if (!corpus || key != std::pair(path, rows)) {
    try {
      corpus = std::make_shared<const Corpus>(Corpus::from_file(path, 1, rows));
    } catch (const word2vec::TextError& error) {
      throw UsageError(fmt::format("--text: {}", error.what()));
    }
    key = {path, rows};
  }
  return corpus;
}

word2vec::DrawOptions draw_options(const reports::Identity& id) {
  return {.pairs = id.batch, .negatives = axis<std::int64_t>(id, "negatives")};
}

constexpr std::int64_t heldout_pairs = 10'000;

Batch heldout_batch(const EmbeddingFixture& fixture) {
  auto options = fixture.training.options();
  options.pairs = heldout_pairs;
  return word2vec::Sampler(*fixture.corpus, fixture.corpus->held_out(), options, fixture.seed + 1).draw(0);
}

EmbeddingFixture::Side side_of(const EmbeddingFixture& fixture) {
  const speedtorch::TableOptions home{.placement = placement_of(fixture.id.placement),
                                      .device = at::Device(fixture.id.device)};
  const auto table = [&] {
    return speedtorch::Table::empty({fixture.id.rows, fixture.id.dim}, at::kFloat, home);
  };
  const auto rows = table();
  EmbeddingFixture::Side side{rows, {}, rows.tensor(), {}};
  for (std::size_t k = 0; k < speedtorch::state_names(fixture.options).size(); ++k) {
    side.state_rows.push_back(table());
    side.states.push_back(side.state_rows.back().tensor());
  }
  return side;
}

std::vector<std::int64_t> numbers_of(const at::Tensor& index) {
  const auto* first = index.const_data_ptr<std::int64_t>();
  return {first, first + index.numel()};
}

std::int64_t distinct(const at::Tensor& index) {
  const auto rows = numbers_of(index);
  return std::ssize(std::set<std::int64_t>(rows.begin(), rows.end()));
}

/// The gradients of a batch, by plain loops in double precision.
struct Gradients {
  at::Tensor centers, contexts;
  at::Tensor center_sizes;  ///< the absolute values that each center's gradient was summed of
};

void add_pair(const float* center, const float* context, double target, std::int64_t dim, double* to_center,
              float* to_size, float* to_context) {
  double score = 0;
  for (std::int64_t c = 0; c < dim; ++c) score += static_cast<double>(center[c]) * context[c];
  const double error = 1 / (1 + std::exp(-score)) - target;
  for (std::int64_t c = 0; c < dim; ++c) {
    to_center[c] += error * context[c];
    to_size[c] += static_cast<float>(std::abs(error * context[c]));
    to_context[c] = static_cast<float>(error * center[c]);
  }
}

Gradients gradients_of(const EmbeddingFixture& fixture, const Batch& batch) {
  const auto dim = fixture.id.dim, pairs = batch.centers.numel(), width = batch.contexts.size(1);
  Gradients found{at::empty({pairs, dim}), at::empty({pairs * width, dim}), at::zeros({pairs, dim})};
  const auto centers = rows_on_host(fixture.centers.table, batch.centers);
  const auto contexts = rows_on_host(fixture.contexts.table, batch.contexts);
  const auto* center = centers.const_data_ptr<float>();
  const auto* context = contexts.const_data_ptr<float>();
  std::vector<double> sum(static_cast<std::size_t>(dim));
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    std::ranges::fill(sum, 0);
    for (std::int64_t k = 0; k < width; ++k) {
      const auto at = pair * width + k;
      add_pair(center + pair * dim, context + at * dim, k == 0 ? 1 : 0, dim, sum.data(),
               found.center_sizes.data_ptr<float>() + pair * dim,
               found.contexts.data_ptr<float>() + at * dim);
    }
    std::ranges::copy(sum, found.centers.data_ptr<float>() + pair * dim);
  }
  return found;
}

}  // namespace

const Text& text_of_run(const std::string& given) {
  static std::string read;  // the path whose content has been hashed
  auto& text = text_slot();
  text.path = given.empty() ? default_text : given;
  text.refusal.clear();
  std::error_code no_matter;
  if (given.empty() && !std::filesystem::exists(text.path, no_matter)) {
    text.name = "text";
    text.refusal =
        "no text is here: install Debian's package bible-kjv and build again, or name one with --text FILE";
    return text;
  }
  if (read != text.path) {
    try {
      const auto content = reports::read_file(text.path);
      const auto hash = harness::sha256(std::as_bytes(std::span(content)));
      text.name =
          fmt::format("text:{}@{}", std::filesystem::path(text.path).filename().string(), hash.substr(0, 8));
    } catch (const reports::ReportError& error) {
      throw UsageError(fmt::format("--text: {}", error.what()));
    }
    read = text.path;
  }
  return text;
}

const Text& text_in_use() { return text_slot(); }

const std::vector<std::string>& training_optimizers() {
  static const std::vector<std::string> names{"SGD", "Adagrad", "SparseAdam", "Adamax"};
  return names;
}

speedtorch::UpdateOptions training_options(const std::string& optimizer, std::int64_t batch) {
  // A frequent word has hundreds of gradients in one batch, which are added up. The rate that SGD bears falls
  // with the batch. Of 4096 pairs it bears 0.05, and at 0.07 some vectors grow without end.
  const double pairs = static_cast<double>(std::max<std::int64_t>(batch, 1024));
  if (optimizer == "SGD") return speedtorch::SGDOptions{.lr = 0.035 * 4096 / pairs};
  if (optimizer == "Adagrad") return speedtorch::AdagradOptions{.lr = 0.1};
  if (optimizer == "SparseAdam") return speedtorch::SparseAdamOptions{.lr = 0.01};
  return speedtorch::AdamaxOptions{.lr = 0.03};
}

std::vector<at::Tensor> EmbeddingFixture::Side::all() const {
  std::vector<at::Tensor> tables{table};
  tables.insert(tables.end(), states.begin(), states.end());
  return tables;
}

EmbeddingFixture::EmbeddingFixture(const reports::Identity& cell, const StepTerms& terms)
    : id(cell),
      seed(terms.seed),
      options(training_options(axis<std::string>(id, "optimizer"), id.batch)),
      corpus(corpus_of(text_in_use().path, id.rows)),
      training(*corpus, corpus->training(), draw_options(id), seed),
      heldout(heldout_batch(*this)),
      unigram_loss(training.unigram_loss(heldout)),
      zero_loss(word2vec::zero_loss(training.options().negatives)),
      centers(side_of(*this)),
      contexts(side_of(*this)) {
  heldout = on_device(heldout);
  for (std::size_t set = 0; set < batches.size(); ++set) {
    batches[set] = training.draw(-1 - static_cast<std::int64_t>(set));  // later training uses other batches
    device_batches[set] = on_device(batches[set]);
  }
  reset();
}

Batch EmbeddingFixture::on_device(const Batch& batch) const {
  const at::Device device(id.device);
  return {batch.centers.to(device), batch.contexts.to(device)};
}

reports::Columns EmbeddingFixture::columns() const {
  reports::Columns columns{{"vocabulary", std::ssize(corpus->vocabulary())}};
  for (const char* name : {"steps_per_s", "words_per_s", "heldout_loss", "zero_loss", "unigram_loss",
                           "trained_pairs", "loss_curve"})
    columns.emplace_back(name, std::monostate{});
  return columns;
}

void EmbeddingFixture::reset() {
  const double most = 0.5 / static_cast<double>(id.dim);  // as in word2vec's program
  speedtorch::fill(centers.table, speedtorch::Uniform{-most, most, seed});
  speedtorch::fill(contexts.table, speedtorch::Uniform{-most, most, seed + 1});
  for (auto* side : {&centers, &contexts}) {
    for (auto& state : side->states) state.zero_();
  }
}

double EmbeddingFixture::heldout_loss() const {
  const at::NoGradGuard no_grad;
  const auto rows = [&](const at::Tensor& table, const at::Tensor& index) {
    return at::index_select(table, 0, index.flatten());
  };
  const auto loss =
      word2vec::loss_of(rows(centers.table, heldout.centers),
                        rows(contexts.table, heldout.contexts).view({heldout_pairs, -1, id.dim}));
  return loss.item<double>() / static_cast<double>(heldout_pairs);
}

EmbeddingStepper::EmbeddingStepper(const reports::Identity& id, EmbeddingFixture& fixture,
                                   const speedtorch::UpdateOptions& reference)
    : fixture_(fixture), centers_(reference, id.rows, id.dim), contexts_(reference, id.rows, id.dim) {
  const auto row_bytes = id.dim * static_cast<std::int64_t>(sizeof(float));
  const auto& first = batch(0);
  const auto looked_up = first.centers.numel() + first.contexts.numel();
  const auto updated = distinct(first.centers) + distinct(first.contexts);
  payload_ = (looked_up + updated * 2 * (1 + std::ssize(fixture.centers.states))) * row_bytes;
}

std::int64_t EmbeddingStepper::index_bytes() const {
  return static_cast<std::int64_t>(batch(0).centers.nbytes() + batch(0).contexts.nbytes());
}

void EmbeddingStepper::remember(int set) {
  if (steps_ == 0) begin();
  const auto grads = gradients_of(fixture_, batch(set));
  centers_.remember(reader_of(fixture_.centers.all()), numbers_of(batch(set).centers), grads.centers,
                    grads.center_sizes);
  contexts_.remember(reader_of(fixture_.contexts.all()), numbers_of(batch(set).contexts), grads.contexts);
}

harness::Check EmbeddingStepper::check(int /*set*/) {
  auto check = centers_.check(reader_of(fixture_.centers.all()), steps_, moves_all());
  const auto others = contexts_.check(reader_of(fixture_.contexts.all()), steps_, moves_all());
  if (check.mismatches == 0) check.first = others.first;
  check.rows += others.rows, check.mismatches += others.mismatches;
  return check;
}

std::string EmbeddingStepper::fingerprint(int set) {
  const auto row = rows_on_host(fixture_.contexts.table, batch(set).contexts.flatten().narrow(0, 0, 1));
  return {static_cast<const char*>(row.const_data_ptr()), row.nbytes()};
}

namespace {

constexpr std::int64_t pairs_to_train = 4'000'000, fewest_steps = 1000, most_steps = 4000;

std::int64_t steps_to_train(const EmbeddingFixture& fixture) {
  return std::clamp(pairs_to_train / fixture.id.batch, fewest_steps, most_steps);
}

/// True if a case can show in half a minute that it learns. A dense optimizer moves some 40 bytes of the two
/// tables per element and step, large batches take as long, a short text has too few pairs, and so have small
/// batches.
bool can_show_learning(const EmbeddingFixture& fixture) {
  constexpr std::int64_t most_elements = 8'000'000'000;  // of all steps
  constexpr std::int64_t fewest_words = 100'000, least_batch = 512, largest_batch = 8192;
  return fixture.id.rows <= most_elements / steps_to_train(fixture) / fixture.id.dim &&
         std::ssize(fixture.corpus->training()) >= fewest_words && fixture.id.batch >= least_batch &&
         fixture.id.batch <= largest_batch;
}

}  // namespace

void EmbeddingStepper::conclude(reports::Record& record) {
  constexpr std::int64_t points = 10;
  reports::set(record.more, "steps_per_s", 1 / *record.median_s);
  reports::set(record.more, "words_per_s", static_cast<double>(fixture_.id.batch) / *record.median_s);
  if (!can_show_learning(fixture_) || harness::interrupted_by() != 0) return;
  fixture_.reset();
  begin();
  const auto steps = steps_to_train(fixture_);
  std::string curve = fmt::format("0:{:.4f}", fixture_.heldout_loss());
  const double first = std::visit([](const auto& one) { return one.lr; }, fixture_.options);
  for (std::int64_t step = 0; step < steps; ++step) {
    set_rate(first * (1 - static_cast<double>(step) / static_cast<double>(steps)));  // as word2vec's program
    train(fixture_.on_device(fixture_.training.draw(step)));
    if ((step + 1) % std::max<std::int64_t>(1, steps / points) != 0) continue;
    if (harness::interrupted_by() != 0) return;  // unfinished training shows nothing
    curve += fmt::format(" {}:{:.4f}", step + 1, fixture_.heldout_loss());
  }
  const double loss = fixture_.heldout_loss();
  reports::set(record.more, "heldout_loss", loss);
  reports::set(record.more, "zero_loss", fixture_.zero_loss);
  reports::set(record.more, "unigram_loss", fixture_.unigram_loss);
  reports::set(record.more, "trained_pairs", steps * fixture_.id.batch);
  reports::set(record.more, "loss_curve", curve);
  if (loss < fixture_.zero_loss && loss < fixture_.unigram_loss) return;
  throw WrongResult(
      fmt::format("it does not learn: {:.4f} on held-out pairs; all-zero vectors have {:.4f}, word "
                  "frequencies alone {:.4f}",
                  loss, fixture_.zero_loss, fixture_.unigram_loss));
}

}  // namespace stbench
