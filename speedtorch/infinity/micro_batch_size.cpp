#include "speedtorch/infinity/micro_batch_size.h"

#include <algorithm>

#include "speedtorch/infinity/errors.h"

namespace speedtorch::infinity {
namespace {

/// Twice the size, or half-way to the size that failed. The same size if that is too near to be worth a
/// trial.
std::int64_t next_up(const MicroBatchSize::Entry& now) {
  if (now.bad == 0) return 2 * now.size;
  const std::int64_t next = std::min(2 * now.size, (now.size + now.bad) / 2);
  return next - now.size < std::max<std::int64_t>(1, now.size / 4) ? now.size : next;
}

}  // namespace

MicroBatchSize::MicroBatchSize(MicroBatchOptions options) : options_(options) {
  struct Limit {
    const char* name;
    std::int64_t value;
    std::int64_t least;
  };
  for (const Limit& limit :
       {Limit{"fixed", options.fixed, 0}, Limit{"first", options.first, 1},
        Limit{"largest", options.largest, 0}, Limit{"grow_again_after", options.grow_again_after, 0}})
    if (limit.value < limit.least)
      throw InfinityBatchError("micro_batch." + std::string(limit.name) + " is " +
                               std::to_string(limit.value) + "; take " + std::to_string(limit.least) +
                               " or more");
}

std::int64_t MicroBatchSize::bounded(std::int64_t samples) const {
  if (options_.fixed > 0) return options_.fixed;
  return std::max<std::int64_t>(1, options_.largest > 0 ? std::min(samples, options_.largest) : samples);
}

std::int64_t MicroBatchSize::of(const std::string& key) const {
  const auto found = entries_.find(key);
  return bounded(found == entries_.end() ? options_.first : found->second.size);
}

MicroBatchSize::Entry& MicroBatchSize::entry(const std::string& key) {
  return entries_.try_emplace(key, Entry{.size = bounded(options_.first)}).first->second;
}

bool MicroBatchSize::worked(const std::string& key, std::int64_t samples, std::int64_t bytes_taken,
                            std::int64_t bytes_free) {
  Entry& now = entry(key);
  now.good = std::max(now.good, samples);
  now.tried_again = false;
  ++now.since_bad;
  if (now.bad_had_worked && options_.grow_again_after > 0 && now.since_bad > options_.grow_again_after)
    now.bad = 0;
  if (options_.fixed > 0) return false;
  if (bytes_taken > 0 && bytes_free < 0) {
    now.size = bounded(samples * (bytes_taken + bytes_free) / bytes_taken);
    return false;
  }
  if (samples < now.size) return false;  // the remainder of a batch

  std::int64_t next = next_up(now);
  if (bytes_taken > 0) {  // assume the same bytes per sample
    const double a_sample = static_cast<double>(bytes_taken) / static_cast<double>(samples);
    next = std::min(next, samples + static_cast<std::int64_t>(static_cast<double>(bytes_free) / a_sample));
  }
  next = bounded(next);
  if (next <= now.size) return false;
  now.size = next;
  return true;
}

bool MicroBatchSize::settled(const std::string& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end() || options_.fixed > 0) return false;
  const Entry& now = found->second;
  return now.size <= now.good && bounded(next_up(now)) <= now.size;
}

MicroBatchSize::Answer MicroBatchSize::ran_out(const std::string& key, std::int64_t samples) {
  Entry& now = entry(key);
  const bool had_worked = samples <= now.good;
  if ((had_worked || options_.fixed > 0) && options_.retry_same_size && !now.tried_again) {
    now.tried_again = true;
    return Answer::again;
  }
  now.tried_again = false;
  if (options_.fixed > 0 || samples <= 1) return Answer::give_up;
  now.bad = samples;
  now.bad_had_worked = had_worked;
  now.since_bad = 0;
  // A size that worked is known to fit, unless it has just failed.
  now.size = now.good < samples && 2 * now.good >= samples ? now.good : samples / 2;
  now.good = std::min(now.good, now.size);
  return Answer::smaller;
}

}  // namespace speedtorch::infinity
