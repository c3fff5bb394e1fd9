#pragma once

#include <string>

#include "benchmarks/steps/step_suite.h"
#include "harness/benchmark_case.h"

namespace stbench {

/// A method with a fault, for stbench_planted: it runs only where it is asked for.
template <class Fixture, class Fault>
StepMethod planted(const std::string& name) {
  return {.name = name,
          .summary = "planted fault",
          .role = harness::Role::peer,
          .asked_only = true,
          .open = step_in<Fixture, Fault>};
}

}  // namespace stbench
