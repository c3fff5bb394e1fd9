#include "benchmarks/sharded/rank_server.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "benchmarks/sharded/mpi.h"
#include "benchmarks/sharded/sent_bytes.h"
#include "benchmarks/suite/registry.h"
#include "benchmarks/suite/suite.h"
#include "harness/sampler.h"
#include "speedtorch/system/system_files.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

using nlohmann::json;

/// Rows that are compared after a sample.
constexpr std::int64_t most_checked = 240;

/// Rank 0 may measure for long, or another suite, before it says more. If it ends, the group ends with it.
constexpr std::chrono::hours until_rank_0_says_more{24 * 7};

/// The purpose of these random numbers (harness/random.h).
constexpr std::uint64_t checked_spots = 0x5b07;

std::int64_t distinct(std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> sorted(rows.begin(), rows.end());
  std::ranges::sort(sorted);
  return std::unique(sorted.begin(), sorted.end()) - sorted.begin();
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

json RankServer::answer(const json& request) {
  const auto what = request.at("do").get<std::string>();
  if (what == "host") return {{"host", speedtorch::host_start_id().value_or("")}};
  if (what == "open") return open(request);
  if (what == "close" || what == "end") {
    methods_.clear();
    cell_.reset();
    if (what == "end") Mpi::end();
    return json::object();
  }
  auto& method = *methods_.at(request.at("method").get<std::size_t>());
  const auto set = request.at("set").get<int>();
  if (what == "prepare") return method.prepare(set), json::object();
  if (what == "poison") return method.poison(), json::object();
  if (what == "run") return run(method, set);
  if (what == "time") return time(method, set, request.at("repeat").get<int>());
  if (what == "check") return check(method, set, request.at("all").get<bool>());
  throw std::invalid_argument("the ranks know no '" + what + "'");
}

json RankServer::open(const json& request) {
  methods_.clear();
  cell_.reset();
  RankCellTerms terms;
  terms.id = case_of(request.at("case").get<std::string>(), "sharded");
  terms.distribution = request.at("distribution").get<std::string>();
  terms.seed = request.at("seed").get<std::uint64_t>();
  terms.shared_name = request.at("shared_name").get<std::string>();
  terms.timeout = std::chrono::milliseconds(request.at("timeout_ms").get<std::int64_t>());
  const auto cpus = request.at("cpus").at(static_cast<std::size_t>(group_.rank())).get<std::vector<int>>();
  speedtorch::set_threads(static_cast<int>(terms.id.cores), cpus);
  random_ =
      harness::Random(harness::key_of(terms.seed, checked_spots, static_cast<std::uint64_t>(group_.rank())));
  cell_ = std::make_unique<RankCell>(std::move(terms), group_);
  for (const auto& name : request.at("methods"))
    methods_.push_back(by_name(sharded_methods(), name.get<std::string>()).open(*cell_));
  return {{"distinct_rows", distinct(cell_->rows(0))}};
}

json RankServer::run(RankGather& method, int set) {
  group_.barrier();
  const auto before = bytes_sent_over_tcp();
  method.run(set);
  const auto after = bytes_sent_over_tcp();
  json answer{{"id_bytes", method.crossed().id_bytes}, {"row_bytes", method.crossed().row_bytes}};
  if (before && after) answer["wire_bytes"] = *after - *before;
  return answer;
}

/// The ranks begin together, and each reads its own clock.
json RankServer::time(RankGather& method, int first, int repeat) {
  group_.barrier();
  const double begin = seconds_now();
  for (int k = 0; k < repeat; ++k) method.run((first + k) % harness::index_sets);
  return {{"seconds", seconds_now() - begin}};
}

json RankServer::check(const RankGather& method, int set, bool all) {
  const auto batch = cell_->batch();
  auto positions = all ? numbers_below(batch) : std::vector<std::int64_t>();
  while (std::ssize(positions) < std::min(batch, most_checked)) positions.push_back(random_.below(batch));
  const auto found = method.check(set, positions);
  return {{"rows", found.rows}, {"mismatches", found.mismatches}, {"first", found.first}};
}

void serve_rank(speedtorch::RankGroup group, std::chrono::milliseconds timeout) {
  RankServer server(group);
  for (;;) {
    group.set_timeout(until_rank_0_says_more);
    const auto request = json::parse(group.gather_texts("").front());
    group.set_timeout(timeout);
    const auto answer = server.answer(request);
    static_cast<void>(group.gather_texts(answer.dump()));
    if (request.at("do") == "end") return;
  }
}

}  // namespace stbench
