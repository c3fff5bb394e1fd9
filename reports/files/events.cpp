#include "reports/files/events.h"

#include <fmt/format.h>

#include <map>

#include "reports/columns.h"
#include "reports/error.h"
#include "reports/files/json.h"
#include "reports/files/json_guard.h"
#include "reports/statistics/statistics.h"

namespace stbench::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = R"({"event":"start")";

std::string line_of(const Json& event) {
  return event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The report's JSON without its cases and the conclusion from them.
Json frame_of(Report report) {
  report.records.clear();
  Json frame = Json::parse(to_json(report));
  frame.erase("cases"), frame.erase("conclusion");
  return frame;
}

std::string start_line(const Report& report) {
  Json event = {{"event", "start"}};
  event.update(frame_of(report));
  return line_of(event);
}

/// By way of the report's own JSON, so that a case is written in one way.
std::string case_line(const Report& report, const Record& record) {
  Report one;
  one.axes = report.axes;
  one.records = {record};
  return line_of({{"event", "case"}, {"case", Json::parse(to_json(one))["cases"][0]}});
}

/// The parts of a record that may change after its measurement.
std::string state_of(const Record& record) {
  return fmt::format("{} {} {}", to_string(record.status), record.mismatches, record.reason);
}

/// The lines of a text; the last without its end is one that was cut off.
std::vector<std::string_view> whole_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

/// The lines put together to the JSON of a report.
class Collected {
 public:
  explicit Collected(std::string_view name) : name_(name) {}

  void add(std::string_view line, std::size_t number) {
    const std::string place = fmt::format("{}: line {}", name_, number);
    Json event = parse_json(line, place);
    const auto named = event.is_object() ? event.find("event") : event.end();
    const std::string kind = named != event.end() && named->is_string() ? named->get<std::string>() : "";
    if (kind == "start" && number == 1) {
      frame_ = std::move(event);
      frame_.erase("event");
    } else if (kind == "case" && event.contains("case") && !event["case"].is_null()) {
      cases_ += (cases_.empty() ? "" : ",") + event["case"].dump();
    } else if (kind == "end" && event.contains("report") && event["report"].is_object()) {
      frame_ = std::move(event["report"]);
      ended_ = true;
    } else {
      throw ReportError(fmt::format("{}: is no event of a run: start, case or end would be right", place));
    }
  }

  Report report() {
    if (!ended_) frame_["interrupted"] = true;
    frame_.erase("cases");
    const std::string rest = frame_.empty() ? "}" : "," + frame_.dump().substr(1);
    return from_json(R"({"cases":[)" + cases_ + "]" + rest, name_);
  }

 private:
  std::string_view name_;
  Json frame_;
  std::string cases_;
  bool ended_ = false;
};

/// The last line about a case counts.
void keep_last(std::vector<Record>& records) {
  std::vector<Record> kept;
  std::map<std::string, std::size_t> row_of;
  for (Record& record : records) {
    const auto [place, is_new] = row_of.emplace(identity_key(record, {}), kept.size());
    if (is_new) {
      kept.push_back(std::move(record));
    } else {
      kept[place->second] = std::move(record);
    }
  }
  records = std::move(kept);
}

}  // namespace

std::string EventLines::update(const Report& report) {
  std::string lines = started_ ? "" : start_line(report);
  started_ = true;
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    if (i >= written_.size() || written_[i] != state_of(report.records[i])) changed.push_back(i);
  }
  if (changed.empty()) return lines;
  const auto first = static_cast<std::ptrdiff_t>(changed.front());
  std::vector<Record> derived(report.records.begin() + first, report.records.end());
  derive(derived);  // the ratios within their cells, which came together
  written_.resize(report.records.size());
  for (const std::size_t i : changed) {
    lines += case_line(report, derived[i - changed.front()]);
    written_[i] = state_of(report.records[i]);
  }
  return lines;
}

std::string EventLines::end(const Report& report) {
  const std::string lines = update(report);
  return lines + line_of({{"event", "end"}, {"report", frame_of(report)}});
}

bool are_events(std::string_view text) { return text.starts_with(kBegin); }

Report from_events(std::string_view text, std::string_view name) {
  Collected collected(name);
  std::size_t number = 0;
  for (const std::string_view line : whole_lines(text)) collected.add(line, ++number);
  if (number == 0)
    throw ReportError(fmt::format("{}: the first line is cut off; there is no case yet", name));
  Report report = collected.report();
  keep_last(report.records);
  derive(report.records);  // a ceiling may have changed after the lines of its cell
  return report;
}

}  // namespace stbench::reports
