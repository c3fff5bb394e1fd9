/// Trains word vectors on a text with Adamax, an optimizer that LibTorch has neither sparse nor at all in
/// C++, on tables that are in no device's memory: huge pages, plain pages or a file.
///
///   word2vec TEXT --out vectors     -> vectors.npy, vectors.txt (word2vec's text format), vectors.checkpoint
///
/// Ended by whatever, it goes on from its last checkpoint when it is started again, and ends with the same
/// vectors.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "corpus.h"
#include "skip_gram.h"
#include "speedtorch/error.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/tables/saved_tables.h"
#include "speedtorch/tables/table.h"
#include "training.h"

namespace word2vec {
namespace {

constexpr const char* usage =
    R"(word2vec TEXT [OPTIONS]: trains word vectors (skip-gram, negative sampling, Adamax)
  --out NAME         NAME.npy, NAME.txt and NAME.checkpoint (vectors)
  --dim N            numbers a word (100)
  --steps N          steps of 4096 pairs (5000)
  --min-count N      words that stand there less often are left out (5)
  --placement NAME   of the tables: hugepage, pageable, libtorch, mapped (hugepage)
  --every N          steps from checkpoint to checkpoint (500)
  --seed N           (1)
  --pairs A:B,...    words whose neighbours are looked at
)";

/// Related words by people's judgement, written down before anything was trained.
const std::string standard_pairs =
    "father:mother,sons:daughters,gold:silver,moses:aaron,sword:spear,sheep:goats,north:south,horses:"
    "chariots,"
    "isaac:jacob,wine:oil";

struct Settings {
  std::string text, out = "vectors", pairs = standard_pairs;
  std::int64_t steps = 5000, min_count = 5, every = 500;
  TrainingOptions training;
};

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::int64_t number(const std::string& text, const std::string& option) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || value < 1)
    throw UsageError(option + " " + text + ": a whole number from 1 on is needed");
  return value;
}

speedtorch::Placement placement(const std::string& text) {
  for (const auto one : {speedtorch::Placement::hugepage, speedtorch::Placement::pageable,
                         speedtorch::Placement::libtorch, speedtorch::Placement::mapped}) {
    if (to_string(one) == text) return one;
  }
  throw UsageError("--placement " + text + ": use hugepage, pageable, libtorch or mapped");
}

Settings read_settings(const std::vector<std::string>& words) {
  Settings settings;
  using Set = std::function<void(const std::string& value, const std::string& option)>;
  const auto whole = [](std::int64_t& target) -> Set {
    return [&target](const auto& value, const auto& option) { target = number(value, option); };
  };
  const std::map<std::string, Set> options{
      {"--out", [&](const auto& value, const auto&) { settings.out = value; }},
      {"--pairs", [&](const auto& value, const auto&) { settings.pairs = value; }},
      {"--placement",
       [&](const auto& value, const auto&) { settings.training.home.placement = placement(value); }},
      {"--seed",
       [&](const auto& value, const auto& option) {
         settings.training.seed = static_cast<std::uint64_t>(number(value, option));
       }},
      {"--dim", whole(settings.training.dim)},
      {"--steps", whole(settings.steps)},
      {"--min-count", whole(settings.min_count)},
      {"--every", whole(settings.every)}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      if (!settings.text.empty())
        throw UsageError("two texts: '" + settings.text + "' and '" + words[i] + "'");
      settings.text = words[i];
      continue;
    }
    const auto option = options.find(words[i]);
    if (option == options.end()) throw UsageError("unknown option " + words[i]);
    if (i + 1 == words.size()) throw UsageError(words[i] + ": the value is missing");
    option->second(words[++i], option->first);
  }
  if (settings.text.empty()) throw UsageError("which text? its file is the first word");
  return settings;
}

/// On a terminal a line that is written over, else nothing.
class ProgressBar {
 public:
  explicit ProgressBar(std::int64_t total) : total_(total), shown_(::isatty(STDERR_FILENO) != 0) {}
  ~ProgressBar() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::int64_t done, double words_per_s) const {
    if (!shown_) return;
    constexpr std::int64_t width = 40;
    std::string bar(static_cast<std::size_t>(width * done / total_), '#');
    bar.resize(width, '.');
    std::fprintf(stderr, "\r[%s] step %lld of %lld, %.0f words/s", bar.c_str(), static_cast<long long>(done),
                 static_cast<long long>(total_), words_per_s);
  }

 private:
  std::int64_t total_;
  bool shown_;
};

void train(Training& training, const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const std::string checkpoint = settings.out + ".checkpoint";
  if (training.load(checkpoint)) std::cout << "resumed after step " << training.steps() << std::endl;
  const ProgressBar bar(settings.steps);
  const auto begin = Clock::now();
  for (const auto first = training.steps(); training.steps() < settings.steps;) {
    training.step();
    const auto done = training.steps();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (done % 10 == 0)
      bar.show(done, static_cast<double>((done - first) * training.pairs_per_step()) / seconds);
    if (done % settings.every == 0 || done == settings.steps) training.save(checkpoint);
  }
}

void write_vectors(const Corpus& corpus, const at::Tensor& vectors, const std::string& name) {
  const speedtorch::TableOptions in_memory{.placement = speedtorch::Placement::libtorch};
  speedtorch::save_npy(speedtorch::Table::from_array(vectors, in_memory), name + ".npy");
  speedtorch::Replacement file(name + ".txt");
  file.append(std::to_string(vectors.size(0)) + ' ' + std::to_string(vectors.size(1)) + '\n');
  const auto* value = vectors.const_data_ptr<float>();
  for (const auto& word : corpus.vocabulary()) {
    std::ostringstream line;
    line << word;
    for (std::int64_t c = 0; c < vectors.size(1); ++c) line << ' ' << *value++;
    file.append(line.str() + '\n');
  }
  file.publish();
}

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// "gold:silver,wine:oil" as numbers of words; those that the text lacks are left out.
Pairs known_pairs(const Corpus& corpus, const std::string& list) {
  Pairs pairs;
  for (std::size_t begin = 0; begin < list.size();) {
    const auto end = std::min(list.find(',', begin), list.size()), colon = list.find(':', begin);
    if (colon >= end) throw UsageError("--pairs: '" + list.substr(begin, end - begin) + "' is no A:B");
    const auto a = corpus.number_of(list.substr(begin, colon - begin));
    const auto b = corpus.number_of(list.substr(colon + 1, end - colon - 1));
    if (a >= 0 && b >= 0) pairs.emplace_back(a, b);
    begin = end + 1;
  }
  return pairs;
}

void print_neighbours(const Corpus& corpus, const at::Tensor& vectors, const Pairs& pairs) {
  constexpr std::int64_t looked_at = 50, printed = 8;
  const auto among = vectors.size(0);
  std::size_t found = 0;
  for (const auto& [a, b] : pairs) {
    const auto of_a = nearest(vectors, a, looked_at, among), of_b = nearest(vectors, b, looked_at, among);
    const bool both = std::ranges::count(of_a, b) > 0 && std::ranges::count(of_b, a) > 0;
    found += both ? 1 : 0;
    std::cout << corpus.vocabulary()[static_cast<std::size_t>(a)] << (both ? " (with " : " (without ")
              << corpus.vocabulary()[static_cast<std::size_t>(b)] << "):";
    for (std::size_t i = 0; i < std::min<std::size_t>(printed, of_a.size()); ++i)
      std::cout << ' ' << corpus.vocabulary()[static_cast<std::size_t>(of_a[i])];
    std::cout << '\n';
  }
  std::cout << found << " of " << pairs.size() << " pairs are among each other's " << looked_at
            << " nearest\n";
}

/// Fails if one of the three files that are to come cannot be created or replaced.
void require_writable(const std::string& name) {
  for (const auto* const kind : {".checkpoint", ".npy", ".txt"}) {
    try {
      const speedtorch::Replacement unpublished(name + kind);
    } catch (const speedtorch::FileError& error) {
      throw UsageError("--out " + name + ": no file can be written there: " + error.what());
    }
  }
}

/// A line that is lost is no success.
void require_printed() {
  if (!std::cout.flush())
    throw std::runtime_error("cannot write the standard output; give it a place with room, or /dev/null");
}

int run(const std::vector<std::string>& words) {
  if (std::ranges::count(words, "--help") > 0) {
    std::cout << usage;
    return 0;
  }
  const auto settings = read_settings(words);
  const auto corpus = Corpus::from_file(settings.text, settings.min_count);
  // Before hours of training, not after them.
  const auto pairs = known_pairs(corpus, settings.pairs);
  require_writable(settings.out);
  std::cout << corpus.training().size() << " words, " << corpus.vocabulary().size() << " different ones"
            << '\n';
  require_printed();
  Training training(corpus, settings.training);
  train(training, settings);
  std::cout << "loss on held-out pairs " << training.heldout_loss() << "; all zero " << training.zero_loss()
            << ", by frequencies alone " << training.unigram_loss() << '\n';
  write_vectors(corpus, training.vectors(), settings.out);
  print_neighbours(corpus, training.vectors(), pairs);
  return 0;
}

/// Opens /dev/null for each closed descriptor of 0 to 2: else the next file to be opened, a checkpoint for
/// instance, gets its number and what is printed. A closed standard output stays one that cannot be written.
void reserve_standard_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) == -1) ::open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace
}  // namespace word2vec

int main(int count, char** words) {
  word2vec::reserve_standard_descriptors();
  // Output beyond the limit on file sizes (ulimit -f) is then an error, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = word2vec::run({words + 1, words + count});
    word2vec::require_printed();
    return status;
  } catch (const word2vec::UsageError& error) {
    std::cerr << "word2vec: " << error.what() << '\n' << word2vec::usage;
  } catch (const std::exception& error) {
    std::cerr << "word2vec: " << error.what() << '\n';
  }
  return 2;
}
