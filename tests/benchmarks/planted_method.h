#pragma once

#include <string>

#include "benchmarks/steps/step_suite.h"
#include "harness/contestant.h"

namespace stbench {

/// A contestant with a fault, for stbench_planted: it runs only where it is asked for.
template <class World, class Fault>
StepMethod planted(const std::string& name) {
  return {.name = name,
          .summary = "planted fault",
          .role = harness::Role::peer,
          .asked_only = true,
          .open = step_in<World, Fault>};
}

}  // namespace stbench
