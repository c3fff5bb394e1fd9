#include "benchmarks/memory/footprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "benchmarks/memory/allocator.h"
#include "benchmarks/memory/footprint_worker.h"
#include "benchmarks/peers/peers.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/tables/row_shape.h"
#include "harness/process_memory.h"
#include "reports/style.h"
#include "speedtorch/system/pages.h"

namespace stbench {
namespace {

using reports::Record;
using reports::Status;
using reports::Value;

/// If less of a host table is resident than was touched, the system took pages back, and the figures are not
/// those of a resident table.
constexpr double enough_resident = 0.99;

PeerTerms terms_of_child(const FootprintTerms& terms) {
  return {
      .limit_s = terms.timeout_s, .limit_words = "the --timeout", .who = "the process", .stop = terms.stop};
}

std::shared_ptr<PeerProcess> start(const TableAllocator& allocator, const FootprintTerms& terms) {
  if (!allocator.allocate) return Peers::of_this_run().another(allocator.name, terms_of_child(terms));
  const std::vector<std::string> command{"/proc/self/exe", footprint_command};
  return std::make_shared<PeerProcess>(command, terms_of_child(terms));
}

std::int64_t touched_rows(const reports::Identity& id) {
  return std::max<std::int64_t>(1, std::llround(axis<double>(id, "touched") * static_cast<double>(id.rows)));
}

FootprintRequest request_of(const reports::Identity& id, const FootprintTerms& terms) {
  return {.method = id.method,
          .placement = id.placement,
          .device = id.device,
          .rows = id.rows,
          .row_bytes = shape_of(id).row_bytes(),
          .touched_rows = touched_rows(id),
          .seed = terms.seed,
          .cpus = terms.cpus,
          .table = terms.table};
}

/// Figures at one moment: the process seen from outside, and its own: of the device, and how long it took.
struct Look {
  harness::ProcessMemory host;
  nlohmann::json device;

  [[nodiscard]] std::optional<std::int64_t> figure(const char* name) const {
    const auto found = device.find(name);
    if (found == device.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<std::int64_t>();
  }
  [[nodiscard]] std::optional<double> seconds(const char* name) const {
    const auto found = device.find(name);
    if (found == device.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  }
  /// Bytes on the side that the table is on.
  [[nodiscard]] std::int64_t in_use(bool on_device) const {
    return on_device ? figure("device_bytes").value_or(0) : host.resident;
  }
};

class FootprintCase {
 public:
  FootprintCase(const reports::Identity& id, const FootprintTerms& terms)
      : request_(request_of(id, terms)), process_(start(allocator_named(id.method), terms)) {
    harness::end_first_for_memory(process_->pid());
    before_ = look("hold " + nlohmann::json(request_).dump(), "ready");
    harness::reset_peak(process_->pid());  // the start's own peak is not the table's
  }

  void hold() { held_ = look("allocate", "held"); }
  void free() { after_ = look("free", "freed"); }

  [[nodiscard]] std::int64_t checked(const char* name) const { return held_.figure(name).value_or(0); }
  [[nodiscard]] std::string first_difference() const { return held_.device.value("first", ""); }

  /// The resident part of what was touched; 1 for a table on a device, where it is unknown.
  [[nodiscard]] double resident_part() const {
    if (on_device()) return 1;
    const auto touched = static_cast<double>(request_.touched_rows * request_.row_bytes);
    return static_cast<double>(held_.host.resident - before_.host.resident) / touched;
  }

  void report(reports::Columns& columns) const {
    const auto set = [&](const char* name, std::optional<std::int64_t> value) {
      if (value) reports::set(columns, name, *value);
    };
    const auto before = before_.in_use(on_device()), held = held_.in_use(on_device());
    set("requested_bytes", request_.bytes());
    set("resident_bytes", held_.host.resident);
    set("locked_bytes", held_.host.locked);
    set("page_table_bytes", held_.host.page_tables);
    set("shared_bytes", held_.host.shared);
    set("device_bytes", held_.figure("device_bytes"));
    set("device_reserved_bytes", held_.figure("device_reserved_bytes"));
    set("device_allocated_bytes", held_.figure("device_allocated_bytes"));
    set("peak_bytes", peak());
    set("steady_bytes", held);
    set("baseline_bytes", before);
    set("after_free_bytes", after_.in_use(on_device()));
    reports::set(columns, "overhead_ratio",
                 static_cast<double>(held - before) / static_cast<double>(request_.bytes()));
    if (!on_device()) {
      const auto touched = request_.touched_rows * request_.row_bytes;
      const auto huge = held_.host.huge - before_.host.huge;
      reports::set(columns, "pages_got", speedtorch::page_kind(huge, touched));
      reports::set(columns, "huge_fraction", speedtorch::huge_fraction(huge, touched));
    }
    for (const char* name : {"allocate_s", "pin_s", "fill_s"}) {
      if (const auto seconds = held_.seconds(name)) reports::set(columns, name, *seconds);
    }
  }

 private:
  [[nodiscard]] bool on_device() const { return request_.placement == "device"; }

  /// The driver reports no peak of a device, so this adds the allocator's peak to what others use. The
  /// kernel's counters of a process lag some pages behind.
  [[nodiscard]] std::optional<std::int64_t> peak() const {
    if (!on_device() && !after_.host.peak) return std::nullopt;
    if (!on_device()) return std::max(*after_.host.peak, held_.host.resident);
    const auto used = held_.figure("device_bytes"), reserved = held_.figure("device_reserved_bytes"),
               most = after_.figure("device_most_reserved_bytes");
    if (!used || !reserved || !most) return std::nullopt;
    return *used - *reserved + *most;
  }

  Look look(const std::string& request, const char* expected) {
    auto answer =
        nlohmann::json::parse(process_->ask(request, expected), nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object())
      throw PeerError(fmt::format("the process answered no figures to '{}'", expected));
    return {harness::read_process_memory(speedtorch::SystemFiles(), process_->pid()), std::move(answer)};
  }

  FootprintRequest request_;
  std::shared_ptr<PeerProcess> process_;
  Look before_, held_, after_;
};

void judge(Record& record, const FootprintCase& table) {
  record.verified_rows = table.checked("verified_rows");
  record.mismatches = table.checked("mismatches");
  if (record.mismatches > 0 || record.verified_rows == 0) {
    record.status = Status::wrong;
    record.reason = reports::one_line(fmt::format("{} of {} rows of the table differ: {}", record.mismatches,
                                                  record.verified_rows, table.first_difference()));
    return;
  }
  table.report(record.more);
  if (const double part = table.resident_part(); part < enough_resident) {
    record.status = Status::unstable;
    record.reason =
        fmt::format("only {:.1f} % of what was touched is in memory: the system took pages back", 100 * part);
  }
}

}  // namespace

reports::Columns empty_memory_columns() {
  reports::Columns columns;
  for (const char* name :
       {"requested_bytes", "resident_bytes", "locked_bytes", "page_table_bytes", "shared_bytes",
        "device_bytes", "device_reserved_bytes", "device_allocated_bytes", "peak_bytes", "steady_bytes",
        "baseline_bytes", "overhead_ratio", "after_free_bytes", "pages_got", "huge_fraction", "allocate_s",
        "pin_s", "fill_s"}) {
    columns.emplace_back(name, Value());
  }
  return columns;
}

Record measure_footprint(const reports::Identity& id, const FootprintTerms& terms) {
  Record record;
  record.id = id;
  record.more = empty_memory_columns();
  record.more.front().second = shape_of(id).bytes();
  const auto killed_before = harness::out_of_memory_kills(speedtorch::SystemFiles());
  try {
    FootprintCase table(id, terms);
    table.hold();
    table.free();
    judge(record, table);
  } catch (const std::exception& error) {
    const bool memory_ran_out = harness::out_of_memory_kills(speedtorch::SystemFiles()) > killed_before;
    record.status = Status::failed;
    record.reason = reports::one_line(
        error.what() + std::string(memory_ran_out ? " (the system ran out of memory meanwhile)" : ""));
  }
  return record;
}

}  // namespace stbench
