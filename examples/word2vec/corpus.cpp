#include "corpus.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>

namespace word2vec {
namespace {

bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte > 127;
}

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

using Counted = std::pair<std::string, std::int64_t>;

/// The words that are kept, most frequent first.
std::vector<Counted> frequent_words(const std::vector<std::string>& words, std::int64_t fewest,
                                    std::int64_t most) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& word : words) ++counts[word];
  std::vector<Counted> kept;
  for (const auto& one : counts) {
    if (one.second >= fewest) kept.push_back(one);
  }
  std::ranges::stable_sort(kept, std::greater<>(), &Counted::second);
  if (most > 0 && std::ssize(kept) > most) kept.resize(static_cast<std::size_t>(most));
  return kept;
}

/// log(1 + e^x) without overflow.
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

}  // namespace

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    const bool within = c == '\'' && !word.empty() && i + 1 < text.size() && is_letter(text[i + 1]);
    if (is_letter(c) || within) {
      word += small(c);
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

Corpus::Corpus(const std::string& text, std::int64_t fewest_times, std::int64_t most_words) {
  const auto words = words_of(text);
  for (const auto& [word, count] : frequent_words(words, fewest_times, most_words)) {
    numbers_.emplace(word, std::ssize(vocabulary_));
    vocabulary_.push_back(word);
  }
  const std::int64_t block = words.size() >= 100'000 ? 1000 : 100;
  counts_.assign(vocabulary_.size(), 0);
  for (std::int64_t i = 0; i < std::ssize(words); ++i) {
    const auto number = number_of(words[static_cast<std::size_t>(i)]);
    if (number < 0) continue;
    const bool held = i / block % 20 == 19;
    (held ? held_out_ : training_).push_back(static_cast<std::int32_t>(number));
    if (!held) ++counts_[static_cast<std::size_t>(number)];
  }
  if (vocabulary_.size() < 2 || training_.size() < 100 || held_out_.size() < 10) {
    throw TextError("the text has " + std::to_string(words.size()) + " words, of which " +
                    std::to_string(vocabulary_.size()) + " different ones are kept; a longer one is needed");
  }
}

Corpus Corpus::from_file(const std::string& path, std::int64_t fewest_times, std::int64_t most_words) {
  const std::string name = "'" + path.substr(path.find_last_of('/') + 1) + "'";
  std::ifstream file(path, std::ios::binary);
  std::string text, piece(std::size_t{1} << 20, '\0');
  while (file) {
    file.read(piece.data(), std::ssize(piece));
    const auto count = static_cast<std::size_t>(file.gcount());
    if (text.size() + count > most_bytes)
      throw TextError("the text " + name + " has more than " + std::to_string(most_bytes) +
                      " bytes, which is the most that is read; a shorter one is needed");
    text.append(piece, 0, count);
  }
  if (!file.eof()) throw TextError("cannot read the text " + name);
  return {text, fewest_times, most_words};
}

std::int64_t Corpus::number_of(const std::string& word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? -1 : found->second;
}

Sampler::Sampler(const Corpus& corpus, const std::vector<std::int32_t>& words, const DrawOptions& options,
                 std::uint64_t seed)
    : words_(words), options_(options), seed_(seed) {
  constexpr double smoothing = 0.5;  // a word that only the held-out part has
  const auto& counts = corpus.counts();
  const auto total = static_cast<double>(corpus.training().size());
  std::vector<double> drawn(counts.size()), weight(counts.size());
  double all_drawn = 0, all_weight = 0;
  for (std::size_t w = 0; w < counts.size(); ++w) {
    const double count = static_cast<double>(counts[w]) + smoothing, part = options.subsample * total / count;
    kept_.push_back(std::min(1.0, std::sqrt(part) + part));  // as word2vec's own program has it
    all_drawn += drawn[w] = count * kept_[w];
    all_weight += weight[w] = std::pow(count, 0.75);
  }
  constexpr double most = 1 << 20;
  for (std::size_t w = 0; w < counts.size(); ++w) {
    const auto places = std::max<std::int64_t>(1, std::llround(most * weight[w] / all_weight));
    noise_.insert(noise_.end(), static_cast<std::size_t>(places), static_cast<std::int32_t>(w));
    const double chance = static_cast<double>(options.negatives) * weight[w] / all_weight;
    scores_.push_back(std::log(drawn[w] / all_drawn / chance));
  }
}

Batch Sampler::draw(std::int64_t number) const {
  std::seed_seq seeds{seed_, seed_ >> 32, static_cast<std::uint64_t>(number),
                      static_cast<std::uint64_t>(number) >> 32};
  std::mt19937_64 random(seeds);
  const auto below = [&](std::size_t bound) { return static_cast<std::int64_t>(random() % bound); };
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto count = std::ssize(words_);
  const auto word = [&](std::int64_t at) { return words_[static_cast<std::size_t>(at)]; };
  const auto keeps = [&](std::int64_t at) { return unit() < kept_[static_cast<std::size_t>(word(at))]; };
  Batch batch{at::empty({options_.pairs}, at::kLong),
              at::empty({options_.pairs, 1 + options_.negatives}, at::kLong)};
  auto* center = batch.centers.data_ptr<std::int64_t>();
  auto* context = batch.contexts.data_ptr<std::int64_t>();
  for (std::int64_t pair = 0; pair < options_.pairs;) {
    const auto at = below(words_.size());
    const auto far = 1 + below(static_cast<std::size_t>(options_.window));
    const auto other = (random() & 1) != 0 ? at + far : at - far;
    if (other < 0 || other >= count || !keeps(at) || !keeps(other)) continue;
    *center++ = word(at);
    *context++ = word(other);
    for (std::int64_t k = 0; k < options_.negatives; ++k)
      *context++ = noise_[static_cast<std::size_t>(below(noise_.size()))];
    ++pair;
  }
  return batch;
}

double Sampler::unigram_loss(const Batch& batch) const {
  const auto* context = batch.contexts.const_data_ptr<std::int64_t>();
  const auto width = batch.contexts.size(1);
  double loss = 0;
  for (std::int64_t i = 0; i < batch.contexts.numel(); ++i) {
    const double score = scores_[static_cast<std::size_t>(context[i])];
    loss += softplus(i % width == 0 ? -score : score);
  }
  return loss / static_cast<double>(batch.centers.numel());
}

}  // namespace word2vec
