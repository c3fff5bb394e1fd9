/// Training for eyes and for files: a line on a terminal, and figures that other programs read while it runs.
#pragma once

#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "speedtorch/infinity/listener.h"

namespace speedtorch::infinity {

enum class Verbosity {
  quiet,    ///< nothing
  epochs,   ///< a line an epoch
  batches,  ///< and one that is drawn anew with the batches, at most ten times a second
};

/// Not in a terminal, the line that is drawn anew is left out.
class ProgressBar final : public Listener {
 public:
  explicit ProgressBar(Verbosity verbosity = Verbosity::batches, std::FILE* to = stderr);

  void batch_ends(const BatchRecord& record) override;
  void epoch_ends(const EpochRecord& record) override;
  /// The verbosity may be changed while training runs.
  void set_verbosity(Verbosity verbosity) { verbosity_ = verbosity; }

 private:
  Verbosity verbosity_;
  std::FILE* to_;
  bool terminal_;
  std::chrono::steady_clock::time_point drawn_;
  std::int64_t batches_of_epoch_ = 0;  ///< of the epoch before
};

/// A line a batch and a line an epoch, written as they happen. A name that ends in .csv is a CSV file, others
/// are JSON with an object a line. The fields: kind (batch, epoch), epoch, batch, step, samples, loss,
/// micro_batches, largest_micro_batch, refusals, seconds, samples_per_second. A loss that is no number is
/// empty, or null.
class StatsFile final : public Listener {
 public:
  /// Appends to a file that is there. @throws FileError where it cannot be opened, and later where a line
  /// cannot be written
  explicit StatsFile(const std::string& path);

  void batch_ends(const BatchRecord& record) override;
  void epoch_ends(const EpochRecord& record) override;

 private:
  struct Line;
  void write(const Line& line);
  std::string name_;
  std::ofstream file_;
  bool csv_;
};

/// For a graphical interface and the like: one function that gets all there is to show.
class Display final : public Listener {
 public:
  struct Now {
    Place place;
    double loss = 0;           ///< of the last batch
    std::int64_t samples = 0;  ///< of the last batch
    double seconds = 0;        ///< that it took
  };
  explicit Display(std::function<void(const Now&)> show, std::function<bool()> stop = {})
      : show_(std::move(show)), stop_(std::move(stop)) {}
  void batch_ends(const BatchRecord& record) override;
  bool stop() override { return stop_ && stop_(); }

 private:
  std::function<void(const Now&)> show_;
  std::function<bool()> stop_;
};

}  // namespace speedtorch::infinity
