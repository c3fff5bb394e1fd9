#include "benchmarks/sharded/ranks.h"

#include <fmt/format.h>

#include "benchmarks/suite/plain_words.h"
#include "speedtorch/error.h"

namespace stbench {

Ranks::Ranks(int size, std::chrono::milliseconds timeout)
    : timeout_(timeout), size_(size), processes_(std::make_unique<RankProcesses>(size, timeout)) {
  try {
    group_.emplace(0, size,
                   speedtorch::GroupOptions{.interface = "127.0.0.1",
                                            .address = "127.0.0.1",
                                            .port = processes_->port(),
                                            .timeout = timeout});
  } catch (const speedtorch::GroupError& error) {
    lose(error.what());
  }
  server_.emplace(*group_);
}

Ranks::Ranks(std::chrono::milliseconds timeout)
    : timeout_(timeout), group_(speedtorch::RankGroup::from_environment({.timeout = timeout})) {
  size_ = group_->size();
  server_.emplace(*group_);
}

Ranks::~Ranks() {
  if (lost()) return;
  try {
    ask({{"do", "end"}});
  } catch (const RanksLost&) {  // they have ended
  }
}

std::vector<nlohmann::json> Ranks::ask(const nlohmann::json& request) {
  if (lost()) throw RanksLost(reason_);
  try {
    static_cast<void>(group_->gather_texts(request.dump()));
    const auto mine = server_->answer(request);
    std::vector<nlohmann::json> answers;
    for (const auto& text : group_->gather_texts(mine.dump())) answers.push_back(nlohmann::json::parse(text));
    return answers;
  } catch (const speedtorch::GroupError& error) {
    lose(error.what());
  } catch (const std::exception& error) {
    // The others are in the midst of an operation, which they cannot finish without this rank.
    lose(fmt::format("rank 0 of {}: {}", size_, plain_words(error.what())));
  }
}

/// Ends the group, and with it the other ranks. Why one of them ended says more than that it is gone.
void Ranks::lose(const std::string& reason) {
  const bool of_this_rank = reason.starts_with(fmt::format("rank 0 of {}: ", size_));
  const auto other = processes_ && !of_this_rank ? processes_->how_one_ended() : std::string();
  reason_ = other.empty() ? reason : other;
  processes_.reset();  // first: NIXL's agent does not end while a rank that it is connected to is stopped
  server_.reset();
  group_.reset();
  throw RanksLost(reason_);
}

}  // namespace stbench
