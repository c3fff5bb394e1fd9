#include "harness/startable_threads.h"

#include <fmt/format.h>

#include <latch>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "harness/errors.h"

namespace stbench::harness {

void require_threads(std::int64_t count) {
  std::latch all_started(1);
  std::vector<std::jthread> threads;
  std::optional<std::error_code> refused;
  try {
    threads.reserve(static_cast<std::size_t>(count));
    while (std::ssize(threads) < count) threads.emplace_back([&] { all_started.wait(); });
  } catch (const std::system_error& error) {
    refused = error.code();
  }
  all_started.count_down();
  if (refused)
    throw UsageError(fmt::format(
        "this run needs {} threads beside its own, and only {} could be started: {}\n"
        "use fewer --cores, or raise the limit on processes (ulimit -u, or pids.max of the container)",
        count, threads.size(), refused->message()));
}

}  // namespace stbench::harness
