/// Listeners that report progress: on a terminal, in files, and to a graphical interface.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "speedtorch/infinity/listener.h"
#include "speedtorch/system/descriptor.h"

namespace speedtorch::infinity {

enum class Verbosity {
  quiet,    ///< nothing
  epochs,   ///< one line per epoch
  batches,  ///< also a progress line, redrawn at most ten times per second
};

/// Prints progress. Omits the progress line if the output is not a terminal.
class ProgressBar final : public Listener {
 public:
  explicit ProgressBar(Verbosity verbosity = Verbosity::batches, std::FILE* to = stderr);

  void batch_ends(const BatchRecord& record) override;
  void epoch_ends(const EpochRecord& record) override;
  /// May be called during training.
  void set_verbosity(Verbosity verbosity) { verbosity_ = verbosity; }

 private:
  Verbosity verbosity_;
  std::FILE* to_;
  bool terminal_;
  std::chrono::steady_clock::time_point drawn_;
  std::int64_t batches_of_epoch_ = 0;  ///< of the previous epoch
};

/// Appends one line per batch and per epoch, immediately. A name that ends in .csv makes a CSV file, any
/// other name a file with one JSON object per line. Fields: kind (batch, epoch), epoch, batch, step, samples,
/// loss, micro_batches, largest_micro_batch, refusals, seconds, samples_per_second. A non-finite loss is
/// empty (CSV) or null (JSON).
class StatsFile final : public Listener {
 public:
  /// Appends to an existing file. @throws FileError if the file cannot be opened; later, if a line cannot be
  /// written
  explicit StatsFile(const std::string& path);

  void batch_ends(const BatchRecord& record) override;
  void epoch_ends(const EpochRecord& record) override;

 private:
  struct Line;
  void write(const Line& line) const;
  void append(std::string_view text) const;
  std::string name_;
  Descriptor file_;
  bool csv_;
};

/// Passes the current state to one function, for example of a graphical interface.
class Display final : public Listener {
 public:
  struct Now {
    Place place;
    double loss = 0;           ///< of the last batch
    std::int64_t samples = 0;  ///< of the last batch
    double seconds = 0;        ///< duration of the last batch
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
