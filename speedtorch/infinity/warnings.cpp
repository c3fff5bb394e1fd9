#include "speedtorch/infinity/warnings.h"

#include <cstdio>
#include <utility>

namespace speedtorch::infinity {

WarningPlan WarningPlan::normal() {
  return {WarningAction::once, {{Warning::smaller, WarningAction::ignore}}};
}

WarningPlan WarningPlan::strict() {
  return {WarningAction::raise,
          {{Warning::smaller, WarningAction::ignore},
           {Warning::set_twice, WarningAction::once},
           {Warning::batch_norm, WarningAction::once}}};
}

WarningAction WarningPlan::action(Warning which) const {
  const auto found = of.find(which);
  return found == of.end() ? otherwise : found->second;
}

Warnings::Warnings(WarningPlan plan, Sink sink) : plan_(std::move(plan)), sink_(std::move(sink)) {
  if (!sink_)
    sink_ = [](Warning, const std::string& text) {
      std::fprintf(stderr, "infinity batch: %s\n", text.c_str());
    };
}

void Warnings::warn(Warning which, const std::string& text) {
  const std::int64_t times = ++counts_[which];
  switch (plan_.action(which)) {
    case WarningAction::ignore:
      return;
    case WarningAction::once:
      if (times == 1) sink_(which, text);
      return;
    case WarningAction::always:
      sink_(which, text);
      return;
    case WarningAction::raise:
      throw WarningRaised(which, text);
  }
}

std::int64_t Warnings::count(Warning which) const {
  const auto found = counts_.find(which);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace speedtorch::infinity
