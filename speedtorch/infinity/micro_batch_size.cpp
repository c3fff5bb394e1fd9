#include "speedtorch/infinity/micro_batch_size.h"

#include <ATen/Context.h>

#include <algorithm>
#include <utility>

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

/// The size of the parts if `samples` are cut into as few equal parts of at most `most` as possible.
std::int64_t equal_part(std::int64_t samples, std::int64_t most) {
  const std::int64_t parts = (samples + most - 1) / most;
  return (samples + parts - 1) / parts;
}

/// True if memory or a larger batch permits clearly more than was compared.
bool is_clearly_more(std::int64_t samples, std::int64_t than) { return 4 * samples > 5 * than; }

}  // namespace

MicroBatchSize::MicroBatchSize(MicroBatchOptions options) : options_(std::move(options)) {
  struct Limit {
    const char* name;
    std::int64_t value;
    std::int64_t least;
  };
  for (const Limit& limit :
       {Limit{"fixed", options_.fixed, 0}, Limit{"first", options_.first, 1},
        Limit{"largest", options_.largest, 0}, Limit{"grow_again_after", options_.grow_again_after, 0}})
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

void MicroBatchSize::remember(std::map<std::string, Entry> entries) {
  entries_ = std::move(entries);
  trials_.clear();
}

bool MicroBatchSize::goes_by_speed() const {
  return options_.by_speed && options_.fixed == 0 && !at::globalContext().deterministicAlgorithms();
}

/// The running comparison, or a new one if memory or the batch permits other sizes now.
SpeedTrials& MicroBatchSize::trials(const std::string& key, std::int64_t largest) {
  const auto running = trials_.find(key);
  if (running != trials_.end()) {
    const std::int64_t before = running->second.largest();
    if (of(key) >= before && !is_clearly_more(largest, before)) return running->second;
    trials_.erase(running);
  }
  const std::int64_t smallest = std::max<std::int64_t>(2, options_.first);
  return trials_.emplace(key, SpeedTrials(largest, smallest)).first->second;
}

std::int64_t MicroBatchSize::next(const std::string& key, std::int64_t batch, std::int64_t left) {
  Entry& now = entry(key);
  const std::int64_t permitted = bounded(now.size);
  if (!goes_by_speed()) return settled(key) ? equal_part(left, permitted) : std::min(permitted, left);
  const std::int64_t in_reach = now.size > now.good ? bounded(next_up(now)) : permitted;
  const bool may_be_larger =
      now.fastest == now.compared_to && is_clearly_more(equal_part(batch, in_reach), now.compared_to);
  if (now.fastest > 0 && now.fastest <= permitted && !may_be_larger) return equal_part(left, now.fastest);
  now.fastest = 0;
  const bool still_grows = now.size > now.good && now.good < batch;
  if (still_grows) return std::min(permitted, left);
  SpeedTrials& compared = trials(key, equal_part(batch, permitted));
  if (const std::int64_t fastest = compared.fastest(); fastest > 0) {
    now.fastest = fastest;
    now.compared_to = compared.largest();
    trials_.erase(key);
    return equal_part(left, fastest);
  }
  return compared.next(left);
}

void MicroBatchSize::timed(const std::string& key, std::int64_t samples, double seconds) {
  if (const auto found = trials_.find(key); found != trials_.end()) found->second.timed(samples, seconds);
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
