#include "benchmarks/sharded/group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "benchmarks/suite/registry.h"
#include "harness/numbers.h"
#include "reports/statistics/role.h"

namespace stbench {
namespace {

using nlohmann::json;
using reports::Record;
using reports::Value;

/// Columns that follow from the times, and those that the ranks count.
reports::Columns empty_columns() {
  reports::Columns columns;
  for (const char* name : {"algbw_gb_per_s", "busbw_gb_per_s", "wire_fraction", "id_bytes", "remote_bytes",
                           "wire_bytes", "distinct_rows"})
    columns.emplace_back(name, Value());
  return columns;
}

/// The sum over the ranks; nothing if one of them does not know it.
std::optional<std::int64_t> sum_of(const std::vector<json>& answers, const char* name) {
  std::int64_t sum = 0;
  for (const auto& answer : answers) {
    if (!answer.contains(name)) return std::nullopt;
    sum += answer.at(name).get<std::int64_t>();
  }
  return sum;
}

void set_sum(reports::Columns& columns, const char* column, const std::vector<json>& answers,
             const char* name) {
  if (const auto sum = sum_of(answers, name)) reports::set(columns, column, *sum);
}

/// A name that no other run of this machine has.
std::string new_shared_name() {
  static int tables = 0;
  return fmt::format("stbench sharded {} {}", ::getpid(), tables++);
}

}  // namespace

ShardedGroup::ShardedGroup(std::vector<reports::Identity> its_cases, std::string distribution,
                           std::uint64_t seed, std::shared_ptr<Crew> crew)
    : distribution_(std::move(distribution)), seed_(seed), crew_(std::move(crew)) {
  cases = std::move(its_cases);
  const auto& id = cases.front();
  title = fmt::format("{} {}, {} ranks, {}×{} {} {}", id.suite, axis<std::string>(id, "engine"),
                      axis<std::int64_t>(id, "ranks"), harness::short_count(id.rows),
                      harness::short_count(id.dim), id.batch, id.distribution);
}

std::vector<harness::BenchmarkCase> ShardedGroup::prepare() {
  const auto& id = cases.front();
  const auto size = static_cast<int>(axis<std::int64_t>(id, "ranks"));
  ranks_ = &crew_->of(size);
  std::vector<std::string> methods;
  for (const auto& one : cases) methods.push_back(one.method);
  const auto answers = ranks_->ask({{"do", "open"},
                                    {"case", case_id_of(id)},
                                    {"distribution", distribution_},
                                    {"seed", seed_},
                                    {"shared_name", new_shared_name()},
                                    {"timeout_ms", ranks_->timeout().count()},
                                    {"cpus", crew_->cpus_of_ranks(size, static_cast<int>(id.cores))},
                                    {"methods", methods}});
  std::vector<harness::BenchmarkCase> runnable_cases;
  columns_.assign(cases.size(), empty_columns());
  for (std::size_t k = 0; k < cases.size(); ++k) {
    set_sum(columns_[k], "distinct_rows", answers, "distinct_rows");
    runnable_cases.push_back(runnable(k));
  }
  return runnable_cases;
}

harness::BenchmarkCase ShardedGroup::runnable(std::size_t number) {
  const auto& id = cases[number];
  harness::BenchmarkCase one(
      id, by_name(sharded_methods(), id.method).role, [this, number](int set) { run(number, set); },
      [this, number](int set) { return check(number, set, /*all=*/true); });
  one.prepare = [this, number](int set) { ask("prepare", number, set); };
  one.poison = [this, number](int set) { ask("poison", number, set); };
  one.vary = one.poison;
  one.spot_check = [this, number](int set) { return check(number, set, /*all=*/false); };
  one.self_timed = [this, number](int first, int repeat) { return time(number, first, repeat); };
  one.payload_bytes = axis<std::int64_t>(id, "ranks") * id.batch * shape_of(id).row_bytes();
  one.index_bytes =
      axis<std::int64_t>(id, "ranks") * id.batch * static_cast<std::int64_t>(sizeof(std::int64_t));
  one.repeatable = false;  // the ceiling's buffers are ready for one set
  one.more = columns_[number];
  return one;
}

ShardedGroup::Answers ShardedGroup::ask(const char* what, std::size_t method, int set, json request) {
  request["do"] = what, request["method"] = method, request["set"] = set;
  return ranks_->ask(request);
}

void ShardedGroup::run(std::size_t method, int set) {
  const auto answers = ask("run", method, set);
  set_sum(columns_[method], "id_bytes", answers, "id_bytes");
  set_sum(columns_[method], "remote_bytes", answers, "row_bytes");
  set_sum(columns_[method], "wire_bytes", answers, "wire_bytes");
}

/// The time of the slowest rank.
double ShardedGroup::time(std::size_t method, int first, int repeat) {
  double slowest = 0;
  for (const auto& answer : ask("time", method, first, {{"repeat", repeat}}))
    slowest = std::max(slowest, answer.at("seconds").get<double>());
  return slowest;
}

harness::Check ShardedGroup::check(std::size_t method, int set, bool all) {
  harness::Check found;
  const auto answers = ask("check", method, set, {{"all", all}});
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    const auto first = answers[rank].at("first").get<std::string>();
    merge(found,
          {answers[rank].at("rows").get<std::int64_t>(), answers[rank].at("mismatches").get<std::int64_t>(),
           first.empty() ? first : fmt::format("rank {}: {}", rank, first)});
  }
  return found;
}

/// As nccl-tests: what each rank receives, and what crosses between the ranks, in bytes per second and rank.
void ShardedGroup::add_bandwidths(Record& record) const {
  const auto ranks = static_cast<double>(axis<std::int64_t>(record.id, "ranks"));
  const auto per_second = [&](double bytes) { return bytes / ranks / *record.median_s / 1e9; };
  reports::set(record.more, "algbw_gb_per_s", per_second(static_cast<double>(record.payload_bytes)));
  const auto crossed = reports::number_of(record.more, "remote_bytes");
  if (crossed.value_or(0) > 0) reports::set(record.more, "busbw_gb_per_s", per_second(*crossed));
}

void ShardedGroup::close(std::vector<Record>& records) {
  if (ranks_ != nullptr && !ranks_->lost()) ranks_->ask({{"do", "close"}});
  const auto wire = std::ranges::find_if(
      records, [](const Record& record) { return record.id.method == "alltoall_base" && record.median_s; });
  for (auto& record : records) {
    if (!record.median_s) continue;
    const auto number = static_cast<std::size_t>(std::ranges::find(cases, record.id) - cases.begin());
    for (const char* name : {"id_bytes", "remote_bytes", "wire_bytes"})
      reports::set(record.more, name, *reports::find(columns_[number], name));
    add_bandwidths(record);
    if (wire != records.end()) reports::set(record.more, "wire_fraction", *wire->median_s / *record.median_s);
  }
}

}  // namespace stbench
