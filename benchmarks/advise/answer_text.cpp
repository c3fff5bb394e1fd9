#include "benchmarks/advise/answer_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "benchmarks/suite/suite.h"
#include "harness/numbers.h"

namespace stbench::advise {
namespace {

using harness::human;
using harness::human_bytes;
using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

std::string ms(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  return reports::significant(seconds * 1e3, 3) + " ms";
}

std::string percent(double part) {
  return part < 0.1 ? fmt::format("{:.1f} %", part * 100) : fmt::format("{:.0f} %", part * 100);
}

/// "0.10 ms", or "0.10 ms with warm caches, 0.9 ms with cold ones" if the states differ.
template <class Text>
std::string by_caches(const MeasuredChoice& choice, Text text) {
  Lines parts;
  for (const auto& state : choice.states) parts.push_back(fmt::format("{} ({})", text(state), state.caches));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string p50_text(const State& state) { return ms(quantiles_of(state).p50); }

std::string quantiles_text(const State& state) {
  const auto found = quantiles_of(state);
  const auto hits = hit_rate_of(state);
  return fmt::format("p50 {}, p99 {}{}{}", ms(found.p50), found.p99_at_least ? "at least " : "",
                     ms(found.p99), hits ? fmt::format(", {} of them in the cache", percent(*hits)) : "");
}

/// "512 MB of memory, 512 MB of disk"
std::string bytes_text(const Bytes& bytes) {
  Lines parts;
  for (const auto& [count, kind] : {std::pair{bytes.device, "of the device's memory"},
                                    std::pair{bytes.memory, "of memory"}, std::pair{bytes.disk, "of disk"}}) {
    if (count > 0) parts.push_back(fmt::format("{} {}", human_bytes(count), kind));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string table_text(const Question& question) {
  auto text = fmt::format("{} × {} {}", human(question.rows), question.dim, question.dtype);
  if (question.trains()) text += fmt::format(" and {} states of {}", question.states, question.optimizer);
  return text + ", " + human_bytes(question.table_bytes() * (1 + question.states));
}

/// "3.1× as long (2.9 to 3.3)", and below twice "8.0 % longer (7.1 to 9.3 %)".
std::string ratio_words(const Comparison& found) {
  const auto& [low, high] = found.interval;
  if (!std::isfinite(high)) return "of unknown length: too few rounds";
  if (found.middle >= 2) return fmt::format("{:.1f}× as long ({:.1f} to {:.1f})", found.middle, low, high);
  const bool longer = found.middle >= 1;
  const auto part = [&](double ratio) { return (longer ? ratio - 1 : 1 - ratio) * 100; };
  return fmt::format("{:.1f} % {} ({:.1f} to {:.1f} %)", part(found.middle), longer ? "longer" : "shorter",
                     part(longer ? low : high), part(longer ? high : low));
}

std::string estimate_mark(const Comparison& found) { return found.estimated ? ", estimated" : ""; }

/// The word as a shell takes it.
std::string quoted(const std::string& word) {
  if (word.find_first_of(" |()'\"$`\\*?<>&;") == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// Why nothing was measured of the choice; empty if nothing speaks against it.
std::string why_not(const Choice& choice, const char* before = "") {
  if (!choice.misfit.empty()) return before + choice.misfit;
  return choice.unmeasured.empty() ? "" : fmt::format("{}not measured: {}", before, choice.unmeasured);
}

/// The most that a choice of which nothing was measured could save: all of the waiting.
double most_saved(const MeasuredChoice& recommended) {
  double most = 0;
  for (const auto& state : recommended.states) most = std::max(most, wait_of(state).high);
  return most;
}

class Words {
 public:
  Words(const Answer& answer, const Question& question, const Room& room)
      : answer_(answer), question_(question), room_(room) {}

  [[nodiscard]] std::string headline() const {
    if (!answer_.recommended)
      return fmt::format("Nowhere here: no choice fits and could be measured ({}).", table_text(question_));
    const auto& one = recommended();
    if (!answer_.worth_it)
      return fmt::format(
          "Not worth it: in {} a step waits for the table most of its time, and nothing faster fits ({}).",
          one.choice.where, table_text(question_));
    if (!answer_.open.empty())
      return fmt::format("Not decided between {}; until then keep the table in {} ({}).", open_names(),
                         one.choice.where, table_text(question_));
    return fmt::format("Keep the table in {} ({}): {}.", one.choice.where, one.choice.name,
                       table_text(question_));
  }

  [[nodiscard]] Lines lines() const {
    if (!answer_.recommended) return misfits();
    const auto& one = recommended();
    Lines all{"bytes    " + bytes_text(one.choice.bytes) + free_text(),
              fmt::format("look-up  {} rows: {}", human(question_.batch), by_caches(one, quantiles_text))};
    if (question_.trains())
      all.push_back("update   " + by_caches(one, [&](const State& state) { return update_text(state); }));
    all.push_back(fmt::format("share    {} of a step of {} and the wait", shares(one), ms(question_.step_s)));
    all.push_back("cheaper  " + cheaper());
    all.push_back("faster   " + faster());
    if (const auto text = resident(); !text.empty()) all.push_back("as file  " + text);
    all.push_back("sure     " + sure());
    all.push_back("measured " + measured());
    return all;
  }

 private:
  [[nodiscard]] const MeasuredChoice& recommended() const { return answer_.choices[*answer_.recommended]; }

  [[nodiscard]] std::string open_names() const {
    Lines names;
    for (const auto k : answer_.open) names.push_back(answer_.choices[k].choice.name);
    names.push_back(recommended().choice.name);
    return fmt::format("{}", fmt::join(names, " and "));
  }

  [[nodiscard]] std::string free_text() const {
    return fmt::format("; there are {} of memory ({}), {} of disk", human_bytes(room_.memory),
                       room_.memory_limit, human_bytes(room_.disk));
  }

  [[nodiscard]] std::string update_text(const State& state) const {
    const double median = *state.update->row->median_s * state.update->times;
    return state.estimated
               ? fmt::format("{}, estimated by {} more cold look-ups", ms(median), question_.states)
               : ms(median);
  }

  [[nodiscard]] std::string shares(const MeasuredChoice& one) const {
    return by_caches(one, [&](const State& state) {
      const auto wait = wait_of(state);
      return fmt::format("{} [{} to {}]", percent(share_of(wait.median, question_.step_s)),
                         percent(share_of(wait.low, question_.step_s)),
                         percent(share_of(wait.high, question_.step_s)));
    });
  }

  [[nodiscard]] Lines misfits() const {
    Lines all;
    for (const auto& one : answer_.choices)
      all.push_back(fmt::format("{}: {}", one.choice.name, why_not(one.choice)));
    return all;
  }

  [[nodiscard]] std::string cheaper() const {
    if (!answer_.cheaper) return "none: a file is the cheapest";
    const auto& other = answer_.choices[*answer_.cheaper];
    const auto head = fmt::format("{}: {}; ", other.choice.name, bytes_text(other.choice.bytes));
    if (!other.measured()) return head + why_not(other.choice);
    const auto found = compare_steps(other, recommended(), question_.step_s);
    const auto verdict = found.verdict();
    return head + fmt::format("p50 {}; a step {}{}: {}", by_caches(other, p50_text), ratio_words(found),
                              estimate_mark(found),
                              verdict == Verdict::beyond   ? "not worth it"
                              : verdict == Verdict::within ? "worth it"
                                                           : "not decided");
  }

  [[nodiscard]] std::string faster() const {
    if (!answer_.faster) return "none: a GPU's memory is the fastest";
    const auto& other = answer_.choices[*answer_.faster];
    const auto head = fmt::format("{}: {}; ", other.choice.name, bytes_text(other.choice.bytes));
    if (!other.measured()) {
      const double most = most_saved(recommended());
      return head + why_not(other.choice) +
             (std::isfinite(most)
                  ? fmt::format("; it could save {} of each step at the most{}", ms(most),
                                share_of(most, question_.step_s) <= worth ? ": not worth it" : "")
                  : "");
    }
    const auto found = compare_steps(recommended(), other, question_.step_s);
    const auto verdict = found.verdict();
    return head + fmt::format("p50 {}; without it a step is {}{}: {}", by_caches(other, p50_text),
                              ratio_words(found), estimate_mark(found),
                              verdict == Verdict::within   ? "not worth it"
                              : verdict == Verdict::beyond ? "worth it"
                                                           : "not decided");
  }

  /// The file whose pages stay in memory: it takes the memory, too.
  [[nodiscard]] std::string resident() const {
    const auto found = std::ranges::find_if(answer_.choices, [](const MeasuredChoice& one) {
      return one.choice.compared_only && one.measured();
    });
    if (found == answer_.choices.end() || recommended().choice.rank != found->choice.rank) return {};
    return fmt::format("mapped, while all its pages are in memory: a step {}",
                       ratio_words(compare_steps(*found, recommended(), question_.step_s)));
  }

  [[nodiscard]] std::string sure() const {
    std::int64_t fewest = 0, unstable = 0, rows = 0;
    for_each_row([&](const reports::Record& row) {
      const auto rounds = static_cast<std::int64_t>(row.samples_s.size());
      fewest = rows == 0 ? rounds : std::min(fewest, rounds);
      unstable += row.status == reports::Status::unstable ? 1 : 0;
      ++rows;
    });
    auto text =
        fmt::format("{}, by the 95 % intervals of {} row{} with {} rounds or more, one process a run",
                    answer_.open.empty() ? "decided" : "not decided", rows, rows == 1 ? "" : "s", fewest);
    if (unstable > 0) text += fmt::format("; {} unstable: all their rounds count", unstable);
    return text;
  }

  template <class Use>
  void for_each_row(Use use) const {
    for (const auto& one : answer_.choices) {
      for (const auto& state : one.states) {
        use(*state.lookup.row);
        if (state.update) use(*state.update->row);
      }
    }
  }

  [[nodiscard]] std::string measured() const {
    const auto rows = measured_rows(question_);
    const auto part = rows == question_.rows ? std::string("the whole table")
                                             : fmt::format("{} of its rows ({})", human(rows),
                                                           human_bytes(rows * question_.row_bytes()));
    return fmt::format("{}, {} indices; --explain shows the rows", part,
                       recommended().states.front().lookup.row->id.distribution);
  }

  const Answer& answer_;
  const Question& question_;
  const Room& room_;
};

std::string_view word_of(Verdict verdict) {
  return verdict == Verdict::within ? "within" : verdict == Verdict::beyond ? "beyond" : "not decided";
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of_bytes(const Bytes& bytes) {
  return {{"memory", bytes.memory}, {"device", bytes.device}, {"disk", bytes.disk}};
}

Json json_of_state(const State& state, double step_s) {
  const auto quantiles = quantiles_of(state);
  const auto wait = wait_of(state);
  Json object{{"caches", state.caches},
              {"status", to_string(state.lookup.row->status)},
              {"p50_s", quantiles.p50},
              {"p99_s", quantiles.p99},
              {"p99_is_at_least", quantiles.p99_at_least},
              {"look_ups", quantiles.runs}};
  const auto hits = hit_rate_of(state);
  object["hit_rate"] = hits ? Json(*hits) : Json(nullptr);
  object["update_s"] =
      state.update ? Json(*state.update->row->median_s * state.update->times) : Json(nullptr);
  object["update_estimated"] = state.estimated;
  object["wait_s"] = {{"low", wait.low}, {"median", wait.median}, {"high", number(wait.high)}};
  object["share"] = {{"low", share_of(wait.low, step_s)},
                     {"median", share_of(wait.median, step_s)},
                     {"high", share_of(wait.high, step_s)}};
  object["case"] = case_id_of(state.lookup.row->id);
  object["update_case"] = state.update ? Json(case_id_of(state.update->row->id)) : Json(nullptr);
  return object;
}

Json json_of_comparison(const Comparison& found) {
  return {{"ratio", found.middle},  {"low", found.interval.low},    {"high", number(found.interval.high)},
          {"paired", found.paired}, {"estimated", found.estimated}, {"verdict", word_of(found.verdict())}};
}

Json json_of_choice(const MeasuredChoice& one, const Answer& answer, const Question& question) {
  Json object{{"name", one.choice.name},
              {"placement", to_string(one.choice.placement)},
              {"bytes", json_of_bytes(one.choice.bytes)},
              {"cache_bytes", one.choice.cache_bytes},
              {"fits", one.choice.misfit.empty()},
              {"misfit", one.choice.misfit},
              {"unmeasured", one.choice.unmeasured},
              {"states", Json::array()}};
  for (const auto& state : one.states) object["states"].push_back(json_of_state(state, question.step_s));
  object["step_against_recommended"] = nullptr;
  if (one.measured() && answer.recommended)
    object["step_against_recommended"] =
        json_of_comparison(compare_steps(one, answer.choices[*answer.recommended], question.step_s));
  return object;
}

Json name_of(const Answer& answer, const std::optional<std::size_t>& k) {
  return k ? Json(answer.choices[*k].choice.name) : Json(nullptr);
}

std::string_view verdict_of(const Answer& answer) {
  if (!answer.recommended) return "nowhere";
  if (!answer.worth_it) return "not worth it";
  return answer.open.empty() ? "keep" : "not decided";
}

}  // namespace

std::string text_of(const Answer& answer, const Question& question, const Room& room, reports::Style style) {
  constexpr std::size_t indent = 11;
  const Words words(answer, question, room);
  auto text = reports::lines_of(words.headline(), 2, reports::Paint::bold, style);
  for (const auto& line : words.lines())
    text += reports::lines_of("  " + line, indent, reports::Paint::none, style);
  for (const auto& row : answer.wrong)
    text += reports::lines_of("  wrong    " + row, indent, reports::Paint::bad, style);
  return text;
}

std::string plan_text(const std::vector<Choice>& choices, const std::vector<RunWords>& runs) {
  std::string text;
  for (const auto& choice : choices)
    text += fmt::format("{:<9} {}{}\n", choice.name, bytes_text(choice.bytes), why_not(choice, "; "));
  for (const auto& words : runs) {
    text += "stbench";
    for (const auto& word : words) text += " " + quoted(word);
    text += "\n";
  }
  return text;
}

std::string explanation_of(const Answer& answer, const Question& question) {
  std::string text = fmt::format("\n{:<9} {:<6} {:<8} {:>7} {:>12} {:>26} {:>12} {:>8}\n", "choice", "caches",
                                 "status", "rounds", "median", "interval", "wait", "share");
  for (const auto& one : answer.choices) {
    if (!one.measured())
      text += fmt::format("{:<9} {}\n", one.choice.name,
                          one.choice.misfit.empty() ? one.choice.unmeasured : one.choice.misfit);
    for (const auto& state : one.states) {
      const auto& row = *state.lookup.row;
      const auto wait = wait_of(state);
      text +=
          fmt::format("{:<9} {:<6} {:<8} {:>7} {:>12} {:>26} {:>12} {:>8}\n  {}\n", one.choice.name,
                      state.caches, to_string(row.status), row.samples_s.size(), ms(*row.median_s),
                      row.ci_low_s ? fmt::format("{} to {}", ms(*row.ci_low_s), ms(*row.ci_high_s)) : "none",
                      ms(wait.median), percent(share_of(wait.median, question.step_s)), case_id_of(row.id));
      if (state.update) text += fmt::format("  {}\n", case_id_of(state.update->row->id));
    }
  }
  return text;
}

nlohmann::ordered_json json_of(const Answer& answer, const Question& question, const Room& room) {
  Json object;
  object["question"] = {
      {"table", question.file.empty() ? Json(nullptr) : Json(question.file)},
      {"rows", question.rows},
      {"dim", question.dim},
      {"dtype", question.dtype},
      {"batch", question.batch},
      {"distribution", answer.recommended
                           ? answer.choices[*answer.recommended].states.front().lookup.row->id.distribution
                       : question.has_trace() ? "trace"
                                              : question.distribution},
      {"step_s", question.step_s},
      {"optimizer", question.trains() ? Json(question.optimizer) : Json(nullptr)},
      {"states", question.states},
      {"table_bytes", question.table_bytes()}};
  object["room"] = {{"memory", room.memory},
                    {"memory_limit", room.memory_limit},
                    {"device", room.device},
                    {"disk", room.disk}};
  object["verdict"] = verdict_of(answer);
  object["sentence"] = Words(answer, question, room).headline();
  object["recommended"] = name_of(answer, answer.recommended);
  object["cheaper"] = name_of(answer, answer.cheaper);
  object["faster"] = name_of(answer, answer.faster);
  object["open"] = Json::array();
  for (const auto k : answer.open) object["open"].push_back(answer.choices[k].choice.name);
  object["worth"] = worth;
  object["measured_rows"] = measured_rows(question);
  object["choices"] = Json::array();
  for (const auto& one : answer.choices) object["choices"].push_back(json_of_choice(one, answer, question));
  object["wrong"] = answer.wrong;
  return object;
}

}  // namespace stbench::advise
