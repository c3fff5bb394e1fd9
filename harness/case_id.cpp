#include "harness/case_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/suggest.h"
#include "reports/number.h"
#include "reports/style.h"

namespace stbench::harness {
namespace {

using reports::Identity;
using reports::Value;

constexpr std::string_view kOption = "--case";
constexpr std::string_view kArrow = "->";
constexpr std::string_view kTimes = "×";
constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr std::string_view kKeyLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
constexpr std::string_view kRightMove =
    "transfer to pinned -> speedtorch -> cuda:0 float32 10M×128 batch 131072 unique int64 cores=2";
constexpr std::string_view kRightWork =
    "contiguous step libtorch -> contiguous -> cpu float32 1k×1k cores=2 optimizer=SGD";
constexpr std::string_view kRightHold = "memory in pinned -> speedtorch -> cuda:0 float32 10M×128";

/// The error in a case ID; the right form is added if its kind is known.
class BadCaseId : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse(const std::string& what) { throw BadCaseId(what); }

struct Word {
  std::string text;
  bool quoted = false;     ///< some of it stood in quotes
  std::size_t equals = 0;  ///< where the `=` of key=value stands; 0 if there is none
  bool is_arrow = false;
};

/// Reads one word after another off a case ID.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  std::optional<Word> next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size()));
    if (rest_.empty()) return std::nullopt;
    if (rest_.starts_with(kArrow)) {
      rest_.remove_prefix(kArrow.size());
      return Word{.text = std::string(kArrow), .is_arrow = true};
    }
    Word word;
    while (!rest_.empty() && kBlanks.find(rest_[0]) == kBlanks.npos && !rest_.starts_with(kArrow)) {
      take_character(word);
    }
    return word;
  }

 private:
  void take_character(Word& word) {
    if (rest_[0] == '"') return take_quoted(word);
    const bool ends_key = rest_[0] == '=' && word.equals == 0 && !word.quoted && !word.text.empty();
    if (ends_key && word.text.find_first_not_of(kKeyLetters) == std::string::npos)
      word.equals = word.text.size();
    word.text += rest_[0];
    rest_.remove_prefix(1);
  }

  void take_quoted(Word& word) {
    word.quoted = true;
    rest_.remove_prefix(1);
    while (!rest_.starts_with('"')) {
      if (rest_.starts_with('\\')) rest_.remove_prefix(1);
      if (rest_.empty()) refuse(fmt::format("the quote of '{}' is not closed", word.text));
      word.text += rest_[0];
      rest_.remove_prefix(1);
    }
    rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

/// The text as one word: in quotes where it would be read as something else.
std::string as_word(const std::string& text) {
  const std::size_t key_end = text.find_first_not_of(kKeyLetters);
  const bool looks_like_key = key_end != text.npos && text[key_end] == '=';
  const bool plain = !text.empty() && text.find_first_of(kBlanks) == text.npos &&
                     text.find_first_of("\"\\") == text.npos && text.find(kArrow) == text.npos &&
                     !looks_like_key;
  if (plain) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// The text that axis_value() reads as the same value beside this default.
std::string as_text(const Value& value, const Value& like) {
  const bool by_looks = std::holds_alternative<std::monostate>(like);
  if (const auto* count = std::get_if<std::int64_t>(&value))
    return by_looks ? fmt::format("{}", *count) : short_count(*count);
  if (const auto* real = std::get_if<double>(&value)) {
    const auto digits = fmt::format("{}", *real);
    return by_looks && reports::is_digits(digits) ? digits + ".0" : digits;
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    const bool looks_like_number = reports::is_digits(*text) || reports::real_from(*text);
    return by_looks && looks_like_number ? '"' + *text + '"' : as_word(*text);
  }
  return "";
}

std::int64_t as_count(const std::string& text, std::string_view what) {
  return parse_count(text, fmt::format("{}: {}", kOption, what));
}

/// The value of an axis without a default: its spelling decides the type.
Value value_by_looks(const std::string& text) {
  if (reports::is_digits(text)) return as_count(text, "value");
  if (const auto real = reports::real_from(text)) return *real;
  return text;
}

Value axis_value(const std::string& key, const std::string& text, bool quoted, const Value& like) {
  if (text.empty() && !quoted) return {};
  if (std::holds_alternative<std::string>(like)) return text;
  if (std::holds_alternative<std::int64_t>(like)) return as_count(text, key);
  if (std::holds_alternative<std::monostate>(like)) return quoted ? Value(text) : value_by_looks(text);
  if (const auto real = reports::real_from(text)) return *real;
  refuse(fmt::format("'{}' of '{}={}' is no number", text, key, text));
}

/// Puts key=value words and the other words where they belong.
class Reader {
 public:
  Reader(const AxisDefaults& defaults, CaseKind kind) : defaults_(defaults), kind_(kind) {
    id_.axes = defaults;
  }

  Identity read(std::string_view text) {
    Words words(text);
    while (const auto word = words.next()) {
      if (word->equals == 0) {
        words_.push_back(*word);
      } else {
        set_axis(word->text.substr(0, word->equals), word->text.substr(word->equals + 1), word->quoted);
      }
    }
    read_words();
    if (has_cores() && id_.cores == 0) refuse("cores=N is missing");
    return id_;
  }

 private:
  [[nodiscard]] bool moves() const { return kind_ == CaseKind::moves; }
  [[nodiscard]] bool has_cores() const { return kind_ != CaseKind::holds; }

  void set_axis(const std::string& key, const std::string& text, bool quoted) {
    if (std::ranges::find(seen_, key) != seen_.end()) refuse(fmt::format("'{}=' stands twice", key));
    seen_.push_back(key);
    if (key == "cores" && has_cores()) {
      id_.cores = positive(text, "cores");
      return;
    }
    const auto axis = std::ranges::find(defaults_, key, &AxisDefaults::value_type::first);
    if (axis == defaults_.end()) refuse_key(key, text);
    const auto at = static_cast<std::size_t>(axis - defaults_.begin());
    id_.axes[at].second = axis_value(key, text, quoted, axis->second);
  }

  [[noreturn]] void refuse_key(const std::string& key, const std::string& text) const {
    std::vector<std::string> known;
    if (has_cores()) known.emplace_back("cores");
    for (const auto& axis : defaults_) known.push_back(axis.first);
    refuse(fmt::format("'{}={}' names no axis{}; axes: {}", key, text, did_you_mean(key, known),
                       fmt::join(known, ", ")));
  }

  void read_words() {
    id_.suite = take("the suite");
    id_.direction = take("the direction");
    id_.placement = take("the placement");
    take_exactly(kArrow);
    id_.method = take("the method");
    take_exactly(kArrow);
    id_.device = take("the device");
    id_.dtype = take("the dtype");
    take_size();
    if (moves()) take_batch();
    if (at_ < words_.size()) refuse(fmt::format("'{}' is one word too many", words_[at_].text));
  }

  void take_batch() {
    take_exactly("batch");
    id_.batch = positive(take("the batch"), "batch");
    id_.distribution = take("the distribution");
    id_.index_dtype = take("the index dtype");
  }

  const std::string& take(std::string_view what) {
    if (at_ == words_.size()) refuse(fmt::format("{} is missing at the end", what));
    if (words_[at_].is_arrow) refuse(fmt::format("'->' stands where {} is expected", what));
    return words_[at_++].text;
  }

  void take_exactly(std::string_view expected) {
    if (at_ == words_.size()) refuse(fmt::format("'{}' is missing at the end", expected));
    if (words_[at_].text != expected) {
      refuse(fmt::format("'{}' stands where '{}' is expected", words_[at_].text, expected));
    }
    ++at_;
  }

  void take_size() {
    const std::string& size = take("ROWS×DIM");
    std::size_t length = kTimes.size();
    std::size_t at = size.find(kTimes);
    if (at == std::string::npos) {
      length = 1;
      at = size.find('x');
    }
    if (at == std::string::npos)
      refuse(fmt::format("'{}' stands where ROWS×DIM is expected, e.g. 10M×128", size));
    id_.rows = positive(size.substr(0, at), "rows");
    id_.dim = positive(size.substr(at + length), "dim");
  }

  static std::int64_t positive(const std::string& text, std::string_view what) {
    const std::int64_t count = as_count(text, what);
    if (count < 1) refuse(fmt::format("{} is {}; it is 1 or more", what, text));
    return count;
  }

  const AxisDefaults& defaults_;
  CaseKind kind_;
  Identity id_;
  std::vector<Word> words_;
  std::size_t at_ = 0;
  std::vector<std::string> seen_;
};

bool moves_rows(const Identity& id) {
  return id.batch != 0 || !id.distribution.empty() || !id.index_dtype.empty();
}

std::string_view right_form(CaseKind kind) {
  if (kind == CaseKind::moves) return kRightMove;
  return kind == CaseKind::holds ? kRightHold : kRightWork;
}

}  // namespace

std::string format_case(const Identity& id, const AxisDefaults& defaults) {
  std::string text = fmt::format("{} {} {} -> {} -> {} {} {}×{}", as_word(id.suite), as_word(id.direction),
                                 as_word(id.placement), as_word(id.method), as_word(id.device),
                                 as_word(id.dtype), short_count(id.rows), short_count(id.dim));
  if (moves_rows(id)) {
    text += fmt::format(" batch {} {} {}", short_count(id.batch), as_word(id.distribution),
                        as_word(id.index_dtype));
  }
  if (moves_rows(id) || id.cores != 0) text += fmt::format(" cores={}", id.cores);
  for (const auto& [name, value] : id.axes) {
    const auto axis = std::ranges::find(defaults, name, &AxisDefaults::value_type::first);
    const Value like = axis == defaults.end() ? Value() : axis->second;
    if (axis == defaults.end() || like != value) text += fmt::format(" {}={}", name, as_text(value, like));
  }
  return text;
}

Identity parse_case(std::string_view text, const AxisDefaults& defaults, CaseKind kind) {
  try {
    return Reader(defaults, kind).read(text);
  } catch (const BadCaseId& bad) {
    throw UsageError(
        fmt::format("{}: {}\nright: {}", kOption, reports::one_line(bad.what()), right_form(kind)));
  }
}

}  // namespace stbench::harness
