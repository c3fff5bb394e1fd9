#include "speedtorch/memory/home.h"

#include <utility>

namespace speedtorch {
namespace {

thread_local const Home* innermost = nullptr;

}  // namespace

const Home& current_home() {
  static const Home huge_pages;
  return innermost != nullptr ? *innermost : huge_pages;
}

HomeScope::HomeScope(Home home) : home_(std::move(home)), outer_(std::exchange(innermost, &home_)) {}

HomeScope::~HomeScope() { innermost = outer_; }

}  // namespace speedtorch
