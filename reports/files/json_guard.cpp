#include "reports/files/json_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "reports/error.h"
#include "reports/style.h"

namespace stbench::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDeepest = 32;
/// The library takes 16 bytes a value and looks for a key among all of its object: without bounds 100 MB of
/// "1," take gigabytes and 100 MB of keys take days.
constexpr std::size_t kMostValues = 8'000'000;
constexpr std::size_t kMostKeys = 10'000;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kShown = 60;  // bytes of a text in a message

/// Where in a text an iterator stands, counted as it goes.
class Cursor {
 public:
  void pass(char c) {
    before_ = at_;
    at_.column = c == '\n' ? 0 : at_.column + 1;
    if (c == '\n') ++at_.line;
  }
  /// Of the character read last, or of the one before it: a number ends where the next character is read.
  [[nodiscard]] TextPlace place(bool one_back = false) const {
    const TextPlace& place = one_back ? before_ : at_;
    return {place.line, std::max<std::size_t>(place.column, 1)};
  }

 private:
  TextPlace at_{1, 0}, before_{1, 0};
};

/// An input iterator that keeps a cursor, for the library says where it is only when its own grammar is
/// broken.
class Counted {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Counted(const char* at, Cursor* cursor) : at_(at), cursor_(cursor) {}
  reference operator*() const { return *at_; }
  Counted& operator++() {
    cursor_->pass(*at_++);
    return *this;
  }
  bool operator==(const Counted& other) const { return at_ == other.at_; }
  bool operator!=(const Counted& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Cursor* cursor_;
};

/// A text of the file in a message: short, on one line, without anything that a terminal would obey.
std::string shown_text(const std::string& text) {
  return shortened(one_line(text.substr(0, kShown)), kShown);
}

/// Reads the text once without building anything and stops at the first thing that must not be built:
/// nlohmann-json takes any nesting and dies when the value is copied or freed, and keeps the last of two
/// equal keys.
class Guard : public nlohmann::json_sax<Json> {
 public:
  /// @param wanted the number of a value, from 0 in the order of the text, at which to stop
  explicit Guard(const Cursor& cursor, std::size_t wanted = kNoLimit) : cursor_(&cursor), wanted_(wanted) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] TextPlace found() const { return found_; }

  bool null() override { return value(false); }
  bool boolean(bool) override { return value(false); }
  bool number_integer(number_integer_t) override { return value(true); }
  bool number_unsigned(number_unsigned_t) override { return value(true); }
  bool number_float(number_float_t, const string_t&) override { return value(true); }
  bool string(string_t&) override { return value(false); }
  bool binary(binary_t&) override { return value(false); }
  bool start_object(std::size_t) override { return value(false) && enter(); }
  bool start_array(std::size_t) override { return value(false) && enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (keys_.back().size() >= kMostKeys)
      return fail(fmt::format("an object has more than {} keys; a report has not", kMostKeys));
    return keys_.back().insert(name).second ||
           fail(fmt::format("key \"{}\" appears twice in an object", shown_text(name)));
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    return fail(what_is_wrong(error.what()));
  }

 private:
  /// The library's words without its number and its own count of line and column.
  static std::string what_is_wrong(std::string_view what) {
    if (const auto place = what.find(", column "); place != std::string_view::npos) {
      const auto colon = what.find(": ", place);
      if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
    } else if (const auto number = what.find("] "); number != std::string_view::npos) {
      what.remove_prefix(number + 2);
    }
    constexpr std::size_t kLongest = 200;
    return shortened(one_line(what.substr(0, 2 * kLongest)), kLongest);
  }
  bool value(bool number) {
    if (values_ == wanted_) {
      found_ = cursor_->place(number);
      return false;
    }
    return ++values_ <= kMostValues ||
           fail(fmt::format("more than {} values; no report has so many", kMostValues));
  }
  bool enter() {
    keys_.emplace_back();
    return keys_.size() <= kDeepest || fail(fmt::format("nests deeper than {}; a report does not", kDeepest));
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }
  bool fail(const std::string& what) {
    const TextPlace place = cursor_->place();
    problem_ = fmt::format("line {}, column {}: {}", place.line, place.column, what);
    return false;
  }

  const Cursor* cursor_;
  std::size_t wanted_;
  TextPlace found_;
  std::size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // one set an open object or array
  std::string problem_;
};

bool walk(std::string_view text, Guard& guard, Cursor& cursor) {
  return Json::sax_parse(Counted(text.data(), &cursor), Counted(text.data() + text.size(), &cursor), &guard);
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";
  if (text.starts_with(kUtf8Mark)) text.remove_prefix(kUtf8Mark.size());
  return text;
}

/// Counts the values before `wanted` in the order of the text. @returns true where it was met
bool count_before(const Json& value, const Json& wanted, std::size_t& before) {
  if (&value == &wanted) return true;
  ++before;
  return value.is_structured() && std::any_of(value.begin(), value.end(), [&](const Json& part) {
           return count_before(part, wanted, before);
         });
}

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, std::string_view name) {
  text = without_mark(text);
  Cursor cursor;
  Guard guard(cursor);
  if (!walk(text, guard, cursor)) throw ReportError(fmt::format("{}, {}", name, guard.problem()));
  return Json::parse(text);
}

TextPlace place_of(const nlohmann::ordered_json& value, const nlohmann::ordered_json& document,
                   std::string_view text) {
  std::size_t before = 0;
  if (!count_before(document, value, before)) return {};
  Cursor cursor;
  Guard guard(cursor, before);
  walk(without_mark(text), guard, cursor);
  return guard.found();
}

}  // namespace stbench::reports
