/// A text as numbers of words, and what is drawn from it: pairs of a word and a neighbour, and words that are
/// none.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace word2vec {

/// The text cannot be used as asked: the message says why.
class TextError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The words of a text in its order: runs of letters, small, an apostrophe between letters being one. Bytes
/// above 127 are letters, so that any UTF-8 text can be read.
std::vector<std::string> words_of(const std::string& text);

/// A text whose rare words are left out. Word 0 is the most frequent; of equally frequent ones the first in
/// the alphabet.
class Corpus {
 public:
  /// @param most_words keeps that many of the most frequent; 0: all
  /// @throws TextError where fewer than two words or a hundred tokens are left
  Corpus(const std::string& text, std::int64_t fewest_times, std::int64_t most_words = 0);
  /// A file that never ends, such as a pipe or /dev/zero, would otherwise take all memory. The largest text
  /// in common use, enwik9, has 10^9 bytes.
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;
  /// @throws TextError where the file cannot be read or has more than most_bytes
  static Corpus from_file(const std::string& path, std::int64_t fewest_times, std::int64_t most_words = 0);

  [[nodiscard]] const std::vector<std::string>& vocabulary() const { return vocabulary_; }
  /// The number of a word, -1 where it is not kept.
  [[nodiscard]] std::int64_t number_of(const std::string& word) const;
  /// How often each word stands in the part that is trained on.
  [[nodiscard]] const std::vector<std::int64_t>& counts() const { return counts_; }
  [[nodiscard]] const std::vector<std::int32_t>& training() const { return training_; }
  /// Every twentieth thousand words (of short texts: every twentieth hundred), which training never sees.
  [[nodiscard]] const std::vector<std::int32_t>& held_out() const { return held_out_; }

 private:
  std::vector<std::string> vocabulary_;
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int32_t> training_, held_out_;
};

/// Pairs for one step.
struct Batch {
  at::Tensor centers;   ///< [pairs] int64
  at::Tensor contexts;  ///< [pairs, 1 + negatives] int64: a neighbour, and words drawn by frequency to the
                        ///< power of 3/4
};

struct DrawOptions {
  std::int64_t pairs = 4096;
  std::int64_t negatives = 5;
  std::int64_t window = 5;  ///< a neighbour is 1 to so many words away, each distance as likely as any other
  double subsample =
      1e-3;  ///< words more frequent than this are left out of pairs, the more so the more frequent
};

/// Draws pairs by chance, each a function of the seed and of the batch's number: a run that is resumed goes
/// on as if it had never ended.
class Sampler {
 public:
  /// @param words the training or the held-out part of `corpus`, which must outlive this
  Sampler(const Corpus& corpus, const std::vector<std::int32_t>& words, const DrawOptions& options,
          std::uint64_t seed);

  [[nodiscard]] Batch draw(std::int64_t number) const;
  /// The loss of who knows how frequent each word is and nothing of the word beside it: the mean over the
  /// pairs of a batch with the best score for each context word by itself.
  [[nodiscard]] double unigram_loss(const Batch& batch) const;
  [[nodiscard]] const DrawOptions& options() const { return options_; }

 private:
  const std::vector<std::int32_t>& words_;
  DrawOptions options_;
  std::uint64_t seed_;
  std::vector<double> kept_;         ///< of each word, the part of its occurrences that is kept
  std::vector<std::int32_t> noise_;  ///< words in proportion to count^(3/4)
  std::vector<double> scores_;       ///< the best score of each word as a context, by frequencies alone
};

}  // namespace word2vec
