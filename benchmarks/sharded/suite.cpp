/// The sharded suite: gathers from a table whose rows are spread over several processes, or shared by them.
#include "benchmarks/suite/suite.h"
#include "benchmarks/sharded/method.h"
#include "benchmarks/sharded/plan.h"
#include "benchmarks/suite/option_spec.h"
#include "harness/numbers.h"

namespace stbench::sharded_suite {
namespace {

std::vector<MethodInfo> methods() { return method_infos(sharded_methods()); }

std::vector<AxisInfo> describe() {
  return with_methods(
      {{"engine", sharded_engines(), "all that are here"},
       {"ranks", "processes, any number; a launcher says it", "1 2 4"},
       {"sharding", shardings(), "blocks"},
       {"remote", "share of the rows of other ranks, 0 to 1; drawn: as they are drawn", "drawn"},
       {"device", AxisInfo::Names{"cpu"}, "cpu"},
       {"placement", AxisInfo::Names{"pageable", "hugepage"}, "pageable"},
       {"distribution", "uniform unique sequential sorted zipf:S file:PATH", "uniform zipf:1.05"},
       {"rows", "of the whole table, any number", "200k"},
       {"dim", "any number", "128 1024"},
       {"batch", "rows for each rank, any number", "1536 16384"},
       {"cores", "threads of each rank", "1"}},
      1, methods());
}

void read_ranks(Options& options, const std::string& text, const OptionSpec& spec) {
  auto& ranks = options.own[spec.name];
  ranks.clear();
  for (const auto count : harness::parse_counts(text, spec.name)) ranks.push_back(std::to_string(count));
}

constexpr unsigned rare_axis = option_rule::chooses_cases | option_rule::rare;

const RegisterOption ranks_option{"--ranks LIST", "processes of --suite sharded, which it starts (1, 2, 4)",
                                  read_ranks};
const RegisterOption engine_option{
    "--engine LIST",
    "what rows of --suite sharded travel through: gloo, node, shared, nccl, mpi",
    option_reader::own,
    sharded_engines,
    {},
    rare_axis};
const RegisterOption sharding_option{"--sharding LIST",
                                     "its rows on the ranks: blocks, cyclic, hashed (blocks)",
                                     option_reader::own,
                                     shardings,
                                     {},
                                     rare_axis};
const RegisterOption remote_option{
    "--remote LIST", "share of its rows that other ranks hold; drawn (drawn)", option_reader::own, {}, {},
    rare_axis};

const RegisterSuite registration{{
    .name = "sharded",
    .summary = "gathers from a table that several processes hold together",
    .axes = sharded_axes(),
    .describe = describe,
    .methods = methods,
    .directions = {"to"},
    .launched_rank = launched_rank,
    .follow = follow_rank_0,
    .plan = plan_sharded,
}};

}  // namespace
}  // namespace stbench::sharded_suite
