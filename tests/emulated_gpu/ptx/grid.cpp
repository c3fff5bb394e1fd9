#include "tests/emulated_gpu/ptx/grid.h"

#include <algorithm>
#include <cfenv>
#include <numeric>
#include <random>

namespace emulated_gpu {
namespace {

constexpr std::size_t kMostRecent = 16;
/// Blocks that spin are left for new ones, until so many spin; then they get their turns.
constexpr std::size_t kMostSuspended = 32;
/// Rounds in which every block spun and no memory changed: nothing will.
constexpr unsigned kIdleRounds = 10000;

std::uint64_t blocks_of(Dim grid) { return std::uint64_t{grid.x} * grid.y * grid.z; }

}  // namespace

Grid::Grid(const Launch& launch) : launch_(launch), ranges_(launch.kernel->code->accesses.size()) {
  if (launch.find_races) races_ = std::make_unique<Races>(*this);
  order_.resize(blocks_of(launch.grid));
  std::iota(order_.begin(), order_.end(), std::uint64_t{0});
  if (launch.seed != 0) std::shuffle(order_.begin(), order_.end(), std::mt19937_64(launch.seed));
}

Range Grid::find_range(std::uint64_t address) {
  const auto holds = [&](const Range& range) { return address >= range.begin && address < range.end; };
  for (const auto& range : recent_) {
    if (holds(range)) return range;
  }
  auto range = launch_.memory->range_of(address);
  if (range.end == 0) {
    for (const auto& variable : code().variables) {
      if (holds(variable)) range = variable;
    }
  }
  if (range.end == 0) return range;
  if (recent_.size() < kMostRecent) {
    recent_.push_back(range);
  } else {
    recent_[next_recent_++ % kMostRecent] = range;
  }
  return range;
}

std::string Grid::line_text(std::uint32_t line) const {
  const std::string& text = *code().text;
  std::size_t begin = 0;
  for (std::uint32_t i = 1; i < line && begin != std::string::npos; ++i) begin = text.find('\n', begin) + 1;
  begin = std::min(text.find_first_not_of(" \t", begin), text.size());
  auto found = text.substr(begin, text.find('\n', begin) - begin);
  std::replace(found.begin(), found.end(), '\t', ' ');
  return found;
}

void Grid::run_block(std::unique_ptr<Block> block) {
  if (block->run() == Block::Outcome::finished) {
    note_change();
    idle_.push_back(std::move(block));
  } else {
    suspended_.push_back(std::move(block));
  }
}

void Grid::start_next() {
  std::unique_ptr<Block> block;
  if (idle_.empty()) {
    block = std::make_unique<Block>(*this);
  } else {
    block = std::move(idle_.back());
    idle_.pop_back();
  }
  block->start(order_[started_++]);
  run_block(std::move(block));
}

/// In ascending order, because blocks that look back wait for those before them.
void Grid::run_suspended() {
  auto blocks = std::move(suspended_);
  suspended_.clear();
  std::sort(blocks.begin(), blocks.end(),
            [](const auto& a, const auto& b) { return a->number() < b->number(); });
  for (auto& block : blocks) run_block(std::move(block));
}

Counts Grid::run() {
  unsigned idle_rounds = 0;
  std::size_t most = kMostSuspended;
  while (started_ < order_.size() || !suspended_.empty()) {
    if (started_ < order_.size() && suspended_.size() < most) {
      start_next();
      continue;
    }
    const auto changes_before = changes_;
    run_suspended();
    most = suspended_.size() + kMostSuspended;
    idle_rounds = changes_ == changes_before && started_ == order_.size() ? idle_rounds + 1 : 0;
    if (idle_rounds < kIdleRounds) continue;
    throw Fault(719, "deadlock in kernel " + kernel().name + ": " + std::to_string(suspended_.size()) +
                         " blocks wait for memory that nothing changes; the first of them:" +
                         suspended_.front()->where_warps_stand());
  }
  return counts_;
}

Counts run(const Launch& launch) {
  // The caller may round otherwise, or flush subnormals; a device does not know.
  std::fenv_t of_caller;
  std::fegetenv(&of_caller);
  std::fesetenv(FE_DFL_ENV);
  struct Restore {
    const std::fenv_t* environment;
    ~Restore() { std::fesetenv(environment); }
  } restore{&of_caller};
  return Grid(launch).run();
}

}  // namespace emulated_gpu
