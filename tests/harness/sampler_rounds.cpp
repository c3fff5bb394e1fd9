// Samples cases that do nothing, for callgrind to count: sampler_rounds SAMPLES [traced].
#include <cstdlib>
#include <memory>
#include <string_view>

#include "harness/sampler.h"
#include "harness/span.h"

namespace {

using namespace stbench;

harness::BenchmarkCase case_of(const char* method) {
  reports::Identity id;
  id.suite = "transfer", id.direction = "from", id.placement = "libtorch", id.method = method,
  id.device = "cpu";
  id.dtype = "float32", id.index_dtype = "int64", id.distribution = "unique";
  id.rows = 10, id.dim = 1, id.batch = 5, id.cores = 1;
  return {id, harness::Role::ours, [](int) {}, [](int) { return harness::Check{5, 0, {}}; }};
}

}  // namespace

/// What is counted: by its name, so no other function may be merged with it.
extern "C" __attribute__((noinline)) std::size_t measured(int samples) {
  std::vector<harness::BenchmarkCase> group{case_of("a"), case_of("b"), case_of("c")};
  harness::SamplingRules rules;
  rules.floor = rules.most = samples;
  double now = 0;
  harness::SamplerHooks hooks;
  hooks.now_s = [&now] { return now += 1e-3; };
  return harness::measure(group, rules, hooks).size();
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool traced = argc > 2 && std::string_view(argv[2]) == "traced";
  const auto trace = traced ? std::make_unique<harness::Trace>() : nullptr;
  harness::spans_are_seen();  // looks for a profiler once, which is none of the loop's
  return measured(std::atoi(argv[1])) == 3 ? 0 : 1;
}
