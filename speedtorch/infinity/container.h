/// A bounded history of past batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <utility>

namespace speedtorch::infinity {

/// The capacity of a container; older items are dropped.
struct Keep {
  std::int64_t batches = 0;  ///< the last so many, across epochs
  std::int64_t epochs = 0;   ///< the last so many, including the running one

  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  static Keep nothing() { return {0, 0}; }
  static Keep last_batches(std::int64_t count) { return {count, kAll}; }
  static Keep last_epochs(std::int64_t count) { return count > 0 ? Keep{kAll, count} : nothing(); }
  static Keep everything() { return {kAll, kAll}; }
};

/// Items by epoch and batch: `epochs()[e][b]`.
template <class Item>
class Container {
 public:
  /// Receives each item before it is dropped, for example to write it to a disk; also items that are never
  /// kept.
  using Dropped = std::function<void(Item&& item)>;

  explicit Container(Keep keep = Keep::nothing(), Dropped dropped = {})
      : keep_(keep), dropped_(std::move(dropped)) {}

  [[nodiscard]] bool wants() const { return keep_.batches > 0 || dropped_; }
  [[nodiscard]] const std::deque<std::deque<Item>>& epochs() const { return epochs_; }
  [[nodiscard]] std::int64_t size() const { return size_; }  ///< items

  void begin_epoch() {
    epochs_.emplace_back();
    while (static_cast<std::int64_t>(epochs_.size()) > std::max<std::int64_t>(1, keep_.epochs)) drop_epoch();
  }

  void add(Item item) {
    if (epochs_.empty()) epochs_.emplace_back();
    epochs_.back().push_back(std::move(item));
    ++size_;
    while (size_ > keep_.batches) drop_oldest();
  }

  void clear() {
    epochs_.clear();
    size_ = 0;
  }

 private:
  void drop_oldest() {
    while (epochs_.front().empty()) epochs_.pop_front();
    Item oldest = std::move(epochs_.front().front());
    epochs_.front().pop_front();
    --size_;
    if (epochs_.front().empty() && epochs_.size() > 1) epochs_.pop_front();
    if (dropped_) dropped_(std::move(oldest));
  }

  void drop_epoch() {
    for (const std::size_t left = epochs_.size() - 1; epochs_.size() > left;) {
      if (epochs_.front().empty())
        epochs_.pop_front();
      else
        drop_oldest();
    }
  }

  Keep keep_;
  Dropped dropped_;
  std::deque<std::deque<Item>> epochs_;
  std::int64_t size_ = 0;
};

}  // namespace speedtorch::infinity
