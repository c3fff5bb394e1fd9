#include "reports/files/json_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <istream>
#include <set>
#include <streambuf>
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
constexpr std::size_t kShown = 60;  // bytes of a text in a message

/// A text as a stream that says how far it was read: the library says it only where its own grammar is
/// broken.
class Source : public std::streambuf {
 public:
  explicit Source(std::string_view text) {
    auto* const begin = const_cast<char*>(text.data());  // a stream that is only read from
    setg(begin, begin, begin + text.size());
  }

  /// The line and column of the character read last, both from 1.
  [[nodiscard]] std::string place() const {
    const std::string_view read(eback(), static_cast<std::size_t>(gptr() - eback()));
    const std::size_t column = read.size() - (read.rfind('\n') + 1);  // no line end: npos + 1 is 0
    return fmt::format("line {}, column {}", 1 + std::ranges::count(read, '\n'),
                       std::max<std::size_t>(column, 1));
  }
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
  explicit Guard(const Source& source) : source_(source) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return value() && enter(); }
  bool start_array(std::size_t) override { return value() && enter(); }
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
  bool value() {
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
    problem_ = fmt::format("{}: {}", source_.place(), what);
    return false;
  }

  const Source& source_;
  std::size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // one set an open object or array
  std::string problem_;
};

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, std::string_view name) {
  constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";
  if (text.starts_with(kUtf8Mark)) text.remove_prefix(kUtf8Mark.size());
  Source source(text);
  std::istream stream(&source);
  Guard guard(source);
  if (!Json::sax_parse(stream, &guard)) throw ReportError(fmt::format("{}, {}", name, guard.problem()));
  return Json::parse(text);
}

}  // namespace stbench::reports
