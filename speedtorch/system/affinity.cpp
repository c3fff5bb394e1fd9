#include "speedtorch/system/affinity.h"

#include <sched.h>

namespace speedtorch {

bool pin_this_thread(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const auto cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace speedtorch
