#include "harness/distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/random.h"
#include "harness/sha256.h"
#include "harness/suggest.h"
#include "harness/zipf.h"
#include "reports/number.h"
#include "speedtorch/files/npy.h"
#include "speedtorch/system/system_files.h"

namespace stbench::harness {
namespace {

using Kind = Distribution::Kind;
using Index = std::vector<std::int64_t>;

constexpr std::array<std::pair<std::string_view, Kind>, 4> kPlainKinds{{{"uniform", Kind::uniform},
                                                                        {"unique", Kind::unique},
                                                                        {"sequential", Kind::sequential},
                                                                        {"sorted", Kind::sorted}}};
constexpr std::string_view kZipf = "zipf:";
constexpr std::string_view kFile = "file:";
constexpr std::size_t kHashDigits = 8;

/// The uses of a seed: each has its own key, so no two share their random numbers.
enum Purpose : std::uint64_t { kUniform = 1, kUnique, kZipfRank, kZipfScatter };

std::uint64_t key(std::uint64_t seed, Purpose purpose, int set) {
  return key_of(seed, purpose, static_cast<std::uint64_t>(set));
}

double parse_exponent(std::string_view text, std::string_view option) {
  const double exponent = reports::real_from(text).value_or(0);
  if (!(exponent > 0 && exponent <= 20)) {
    throw UsageError(
        fmt::format("{}: '{}' is no exponent for zipf:S; write a number above 0, at most 20, e.g. zipf:1.05",
                    option, text));
  }
  return exponent;
}

Index draw_uniform(std::int64_t rows, std::int64_t batch, std::uint64_t seed, int set) {
  Random random(key(seed, kUniform, set));
  Index index(static_cast<std::size_t>(batch));
  std::ranges::generate(index, [&] { return random.below(rows); });
  return index;
}

Index draw_sorted(std::int64_t rows, std::int64_t batch, std::uint64_t seed, int set) {
  Index index = draw_uniform(rows, batch, seed, set);
  std::ranges::sort(index);
  return index;
}

Index draw_unique(std::int64_t rows, std::int64_t batch, std::uint64_t seed, int set) {
  const Permutation permutation(rows, key(seed, kUnique, set));
  Index index(static_cast<std::size_t>(batch));
  std::ranges::generate(index, [&, i = std::int64_t{0}]() mutable { return permutation(i++); });
  return index;
}

Index draw_zipf(double exponent, std::int64_t rows, std::int64_t batch, std::uint64_t seed, int set) {
  const Zipf zipf(rows, exponent);
  const Permutation scatter(rows, key(seed, kZipfScatter, 0));
  Random random(key(seed, kZipfRank, set));
  Index index(static_cast<std::size_t>(batch));
  std::ranges::generate(index, [&] { return scatter(zipf(random) - 1); });
  return index;
}

/// Returns where set number `set` begins in a ring of so many numbers.
std::int64_t ring_start(std::int64_t length, std::int64_t batch, int set) {
  return static_cast<std::int64_t>(static_cast<__int128>(batch) * set % length);
}

Index draw_sequential(std::int64_t rows, std::int64_t batch, int set) {
  Index index(static_cast<std::size_t>(batch));
  std::ranges::generate(index, [rows, at = ring_start(rows, batch, set)]() mutable {
    const std::int64_t row = at;
    at = at + 1 == rows ? 0 : at + 1;
    return row;
  });
  return index;
}

Index draw_trace(std::span<const std::int64_t> trace, std::int64_t batch, int set) {
  const Index rows = draw_sequential(static_cast<std::int64_t>(trace.size()), batch, set);
  Index index(rows.size());
  std::ranges::transform(rows, index.begin(),
                         [&](std::int64_t at) { return trace[static_cast<std::size_t>(at)]; });
  return index;
}

/// A piece of a file for a message: short, and without what would upset a terminal.
std::string quote(std::string_view text) {
  std::string quoted(text.substr(0, 40));
  std::ranges::replace_if(
      quoted, [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + quoted + (text.size() > 40 ? "…'" : "'");
}

/// NAME and HASH of a recorded "NAME@HASH".
std::optional<std::pair<std::string, std::string>> split_recorded(const std::string& path) {
  const std::size_t at = path.rfind('@');
  if (at == std::string::npos || path.size() - at - 1 != kHashDigits) return std::nullopt;
  const std::string hash = path.substr(at + 1);
  if (hash.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  return std::pair(path.substr(0, at), hash);
}

std::string read_all(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw UsageError(fmt::format("index file '{}': no such file", path));
  if (std::filesystem::is_directory(path, error))
    throw UsageError(fmt::format("index file '{}': is a folder", path));
  if (!std::filesystem::is_regular_file(path, error))  // /dev/zero has no end, and a pipe may stay silent
    throw UsageError(fmt::format("index file '{}': is no regular file; write the numbers to one", path));
  auto content = speedtorch::read_file(path);
  if (!content) throw UsageError(fmt::format("index file '{}': cannot be read", path));
  return *std::move(content);
}

}  // namespace

Distribution parse_distribution(std::string_view text, std::string_view option) {
  if (text.starts_with(kZipf)) return {Kind::zipf, parse_exponent(text.substr(kZipf.size()), option), ""};
  if (text.starts_with(kFile) && text.size() > kFile.size()) {
    return {Kind::file, 0, std::string(text.substr(kFile.size()))};
  }
  const auto plain = std::ranges::find(kPlainKinds, text, &decltype(kPlainKinds)::value_type::first);
  if (plain != kPlainKinds.end()) return {plain->second, 0, ""};
  const std::vector<std::string> known{"uniform", "unique", "sequential", "sorted", "zipf:S", "file:PATH"};
  throw UsageError(unknown_name(text, option, known));
}

std::string to_string(const Distribution& distribution) {
  if (distribution.kind == Kind::zipf) return fmt::format("{}{}", kZipf, distribution.exponent);
  if (distribution.kind == Kind::file) return fmt::format("{}{}", kFile, distribution.path);
  return std::string(
      std::ranges::find(kPlainKinds, distribution.kind, &decltype(kPlainKinds)::value_type::second)->first);
}

IndexSource::IndexSource(Distribution distribution)
    : distribution_(std::move(distribution)), recorded_name_(to_string(distribution_)) {
  if (distribution_.kind == Kind::file) load();
}

void IndexSource::load() {
  std::error_code error;
  std::optional<std::pair<std::string, std::string>> recorded;
  if (!std::filesystem::exists(distribution_.path, error)) recorded = split_recorded(distribution_.path);
  if (recorded) distribution_.path = recorded->first;
  const std::string content = read_all(distribution_.path);
  const auto bytes = std::as_bytes(std::span(content));
  const std::string hash = sha256(bytes).substr(0, kHashDigits);
  if (recorded && recorded->second != hash) {
    throw UsageError(fmt::format("index file '{}': its content has the hash {}, not the recorded {}",
                                 distribution_.path, hash, recorded->second));
  }
  recorded_name_ =
      fmt::format("{}{}@{}", kFile, std::filesystem::path(distribution_.path).filename().string(), hash);
  speedtorch::is_npy(bytes) ? read_npy(content) : read_text(content);
  if (trace_.empty()) throw UsageError(fmt::format("index file '{}': has no numbers", distribution_.path));
  const auto negative = std::ranges::find_if(trace_, [](std::int64_t number) { return number < 0; });
  if (negative != trace_.end()) {
    refuse_element(static_cast<std::size_t>(negative - trace_.begin()),
                   fmt::format("{} is negative", *negative));
  }
  trace_max_ = *std::ranges::max_element(trace_);
}

void IndexSource::read_text(std::string_view content) {
  element_ = "line";
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) refuse_element(trace_.size(), "is empty; each line has one whole number");
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (error == std::errc::invalid_argument || rest != line.data() + line.size()) {
      refuse_element(trace_.size(), quote(line) + " is no whole number");
    }
    if (error != std::errc{}) refuse_element(trace_.size(), quote(line) + " does not fit 64 bits");
    trace_.push_back(number);
  }
}

void IndexSource::read_npy(std::string_view content) {
  element_ = "element";
  try {
    trace_ = speedtorch::npy_integers(std::as_bytes(std::span(content)));
  } catch (const speedtorch::NpyError& error) {
    throw UsageError(fmt::format("index file '{}': {}", distribution_.path, error.what()));
  }
}

void IndexSource::refuse_element(std::size_t position, std::string_view what) const {
  const std::size_t number = element_ == "line" ? position + 1 : position;
  throw UsageError(fmt::format("index file '{}', {} {}: {}", distribution_.path, element_, number, what));
}

void IndexSource::require(std::int64_t rows, std::int64_t batch) const {
  if (rows < 1) throw UsageError(fmt::format("--rows: {} is too few; a table has 1 row or more", rows));
  if (batch < 1) throw UsageError(fmt::format("--batch: {} is too few; a batch has 1 row or more", batch));
  if (distribution_.kind == Kind::unique && batch > rows) {
    throw UsageError(
        fmt::format("--batch: {} unique rows cannot be drawn from a table of {} rows; "
                    "take at most that many or --distribution uniform",
                    human(batch), human(rows)));
  }
  if (trace_max_ < rows) return;
  const auto found = std::ranges::find_if(trace_, [&](std::int64_t number) { return number >= rows; });
  refuse_element(static_cast<std::size_t>(found - trace_.begin()),
                 fmt::format("{} is not below the table's {} rows; take --rows {} or more", *found,
                             human(rows), static_cast<std::uint64_t>(trace_max_) + 1));
}

std::vector<std::int64_t> IndexSource::draw(std::int64_t rows, std::int64_t batch, std::uint64_t seed,
                                            int set) const {
  require(rows, batch);
  switch (distribution_.kind) {
    case Kind::uniform:
      return draw_uniform(rows, batch, seed, set);
    case Kind::unique:
      return draw_unique(rows, batch, seed, set);
    case Kind::sequential:
      return draw_sequential(rows, batch, set);
    case Kind::sorted:
      return draw_sorted(rows, batch, seed, set);
    case Kind::zipf:
      return draw_zipf(distribution_.exponent, rows, batch, seed, set);
    case Kind::file:
      return draw_trace(trace_, batch, set);
  }
  throw std::logic_error("a distribution of no kind");
}

}  // namespace stbench::harness
