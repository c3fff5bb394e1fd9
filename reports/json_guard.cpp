#include "reports/json_guard.h"

#include <fmt/format.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "reports/error.h"

namespace stbench::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDeepest = 32;

/// Reads the text once without building anything and stops at the first thing that must not be built:
/// nlohmann-json takes any nesting and dies when the value is copied or freed, and keeps the last of two
/// equal keys.
class Guard : public nlohmann::json_sax<Json> {
 public:
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    return keys_.back().insert(name).second ||
           fail(fmt::format("key \"{}\" appears twice in an object", name));
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();
    const std::size_t id_end = what.find("] ");  // the library's exception number
    return fail(std::string(id_end == std::string_view::npos ? what : what.substr(id_end + 2)));
  }

 private:
  bool enter() {
    keys_.emplace_back();
    return keys_.size() <= kDeepest || fail(fmt::format("nests deeper than {}; a report does not", kDeepest));
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }
  bool fail(std::string what) {
    problem_ = std::move(what);
    return false;
  }

  std::vector<std::set<std::string>> keys_;  // one set an open object or array
  std::string problem_;
};

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, std::string_view name) {
  Guard guard;
  if (!Json::sax_parse(text, &guard)) {
    throw ReportError(fmt::format("{}: {}", name, guard.problem()));
  }
  return Json::parse(text);
}

}  // namespace stbench::reports
