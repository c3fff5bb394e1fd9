#include "speedtorch/files/row_cache.h"

#include <ATen/ops/_unique2.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/suite/cache_bytes.h"
#include "harness/distribution.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/rows/rows.h"

namespace stbench {
namespace {

using speedtorch::CacheWrites;
using speedtorch::RowCache;

/// A step of tables in files: takes the rows of the look-up before it and reads those of the states, steps
/// them in memory, and writes all back through caches. Each step has rows that none before it named by
/// itself. The caches share the memory of the case.
class RowCacheStep final : public RowStepper {
 public:
  RowCacheStep(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture),
        id_(id),
        seed_(fixture.seed),
        source_(harness::parse_distribution(id.distribution)),
        sets_(*fixture.sets),
        looked_up_(at::empty({id.batch, id.dim}, at::kFloat)) {
    const auto tables = 1 + fixture.states.size();
    const auto bytes = cache_bytes_of(id) / static_cast<std::int64_t>(tables);
    for (std::size_t k = 0; k < tables; ++k) {
      caches_.push_back(RowCache::open(fixture.file_of(k), {.bytes = bytes, .writes = CacheWrites::back}));
      small_.push_back(at::empty({id.batch, id.dim}, at::kFloat));
    }
    rows_.emplace(small_.front(), fixture.options, std::vector<at::Tensor>(small_.begin() + 1, small_.end()));
    rows_->set_steps(steps_);
  }

  void remember(int set) override {
    if (!std::exchange(warm_, true)) warm_up();
    RowStepper::remember(set);
  }
  void prepare(int set) override {
    constexpr int ahead = harness::index_sets / 2;
    sets_.at(static_cast<std::size_t>((set + ahead) % harness::index_sets)) = draw();
    look_up(named(set));
  }

  void step(int /*set*/) override { step_rows(); }

  void conclude(reports::Record& record) override {
    speedtorch::RowCacheStatistics all;
    for (std::size_t k = 0; k < caches_.size(); ++k) {
      const auto now = caches_[k]->statistics();
      all.hits += now.hits - before_[k].hits, all.misses += now.misses - before_[k].misses;
    }
    reports::set(record.more, "hit_rate", all.hit_rate());
  }

 private:
  [[nodiscard]] const std::vector<std::int64_t>& named(int set) const override {
    return sets_[static_cast<std::size_t>(set)];
  }
  [[nodiscard]] ReadRows reader() override {
    return [this](const std::vector<std::int64_t>& rows) {
      const auto index = at::tensor(rows, at::kLong);
      std::vector<float> all;
      for (const auto& cache : caches_) {
        auto out = at::empty({std::ssize(rows), id_.dim}, at::kFloat);
        cache->gather(index, out);
        const auto* first = out.const_data_ptr<float>();
        all.insert(all.end(), first, first + out.numel());
      }
      return all;
    };
  }

  std::vector<std::int64_t> draw() { return source_.draw(id_.rows, id_.batch, seed_, next_++); }

  void look_up(const std::vector<std::int64_t>& rows) {
    index_ = at::tensor(rows, at::kLong);
    caches_.front()->gather(index_, looked_up_);
  }

  void step_rows() {
    const auto [rows, positions, counts] = at::_unique2(index_, /*sorted=*/true, /*return_inverse=*/true);
    const auto count = rows.size(0);
    speedtorch::scatter_rows(small_.front(), positions, looked_up_);  // equal rows where positions repeat
    for (std::size_t k = 1; k < caches_.size(); ++k) {
      auto part = small_[k].narrow(0, 0, count);
      caches_[k]->gather(rows, part);
    }
    rows_->step(positions, fixture_.grad);
    for (std::size_t k = 0; k < caches_.size(); ++k) caches_[k]->scatter(rows, small_[k].narrow(0, 0, count));
    ++steps_;
  }

  /// Steps until the caches have what they keep, and as many changed rows as they will have.
  void warm_up() {
    fill_until_settled([this] { return rate_of_steps(); });
    for (const auto& cache : caches_) before_.push_back(cache->statistics());
  }

  /// Steps until `most_rows_at_once` rows are looked up, or as many as the table has, and returns the share
  /// of hits. The check knows none of these steps.
  double rate_of_steps() {
    const auto at_once = std::min(most_rows_at_once, id_.rows);
    const auto before = caches_.back()->statistics();
    for (std::int64_t done = 0; done < at_once; done += id_.batch) look_up(draw()), step_rows();
    return caches_.back()->statistics().hit_rate_since(before);
  }

  reports::Identity id_;
  std::uint64_t seed_;
  harness::IndexSource source_;
  IndexSets sets_;
  int next_ = harness::index_sets;
  bool warm_ = false;
  at::Tensor index_, looked_up_;
  std::vector<std::unique_ptr<RowCache>> caches_;  ///< of the parameter, and of each state
  std::vector<speedtorch::RowCacheStatistics> before_;
  std::vector<at::Tensor> small_;  ///< distinct rows of a batch, of each
  std::optional<speedtorch::SparseRows> rows_;
};

const RegisterStepMethod registration(
    "optimizer",
    {
        .name = "row_cache",
        .summary = "this library: RowCache, rows of tables in files (mapped) in --cache-bytes of memory",
        .role = harness::Role::ours,
        .asked_only = true,
        .keeps_rows = true,
        .open = step_in<OptimizerFixture, RowCacheStep>,
    });

}  // namespace
}  // namespace stbench
