#include "speedtorch/infinity/progress_listeners.h"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <filesystem>

#include "speedtorch/error.h"
#include "speedtorch/system/size_signal.h"

namespace speedtorch::infinity {
namespace {

constexpr int kBar = 24;  ///< characters

std::string bar(double done) {
  const int full = static_cast<int>(std::lround(done * kBar));
  return std::string(static_cast<std::size_t>(full), '=') +
         std::string(static_cast<std::size_t>(kBar - full), '.');
}

std::string epoch_of(const Place& place) {
  const std::string number = std::to_string(place.epoch + 1);
  return place.epochs > 0 ? number + "/" + std::to_string(place.epochs) : number;
}

/// The shortest text that reads back the same; empty if not finite.
std::string number(double value) {
  if (!std::isfinite(value)) return {};
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

ProgressBar::ProgressBar(Verbosity verbosity, std::FILE* to)
    : verbosity_(verbosity), to_(to), terminal_(::isatty(::fileno(to)) != 0) {}

void ProgressBar::batch_ends(const BatchRecord& record) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (verbosity_ != Verbosity::batches || !terminal_ || now - drawn_ < 100ms) return;
  drawn_ = now;
  const auto batch = static_cast<double>(record.place.batch + 1);
  const std::string done =
      batches_of_epoch_ > 0 ? " [" + bar(std::min(1.0, batch / static_cast<double>(batches_of_epoch_))) + "]"
                            : "";
  std::fprintf(to_, "\repoch %s%s batch %lld, loss %.6g, %.0f samples/s \033[K",
               epoch_of(record.place).c_str(), done.c_str(), static_cast<long long>(record.place.batch + 1),
               record.result->loss, static_cast<double>(record.result->samples) / record.seconds);
  std::fflush(to_);
}

void ProgressBar::epoch_ends(const EpochRecord& record) {
  batches_of_epoch_ = record.batches;
  if (verbosity_ == Verbosity::quiet) return;
  std::fprintf(to_, "%sepoch %s: loss %.6g, %lld samples in %lld batches, %.0f samples/s\n",
               terminal_ ? "\r\033[K" : "", epoch_of(record.place).c_str(), record.loss,
               static_cast<long long>(record.samples), static_cast<long long>(record.batches),
               static_cast<double>(record.samples) / record.seconds);
  std::fflush(to_);
}

struct StatsFile::Line {
  const char* kind;
  const Place& place;
  std::int64_t samples;
  double loss;
  std::int64_t micro_batches;
  std::int64_t largest_micro_batch;
  std::int64_t refusals;
  double seconds;
};

StatsFile::StatsFile(const std::string& path)
    : name_(std::filesystem::path(path).filename().string()), csv_(path.ends_with(".csv")) {
  const bool is_new = !std::filesystem::exists(path) || std::filesystem::file_size(path) == 0;
  file_.open(path, std::ios::app);
  if (!file_) throw FileError(name_ + " cannot be opened to write stats into");
  if (csv_ && is_new)
    file_ << "kind,epoch,batch,step,samples,loss,micro_batches,largest_micro_batch,refusals,seconds,"
             "samples_per_second\n"
          << std::flush;
}

void StatsFile::write(const Line& line) {
  const std::string loss = number(line.loss);
  const SizeSignalBlocked blocked;
  const std::string rate = number(static_cast<double>(line.samples) / line.seconds);
  if (csv_) {
    file_ << line.kind << ',' << line.place.epoch << ',' << line.place.batch << ',' << line.place.step << ','
          << line.samples << ',' << loss << ',' << line.micro_batches << ',' << line.largest_micro_batch
          << ',' << line.refusals << ',' << number(line.seconds) << ',' << rate;
  } else {
    file_ << R"({"kind": ")" << line.kind << R"(", "epoch": )" << line.place.epoch << R"(, "batch": )"
          << line.place.batch << R"(, "step": )" << line.place.step << R"(, "samples": )" << line.samples
          << R"(, "loss": )" << (loss.empty() ? "null" : loss) << R"(, "micro_batches": )"
          << line.micro_batches << R"(, "largest_micro_batch": )" << line.largest_micro_batch
          << R"(, "refusals": )" << line.refusals << R"(, "seconds": )" << number(line.seconds)
          << R"(, "samples_per_second": )" << (rate.empty() ? "null" : rate) << "}";
  }
  file_ << '\n' << std::flush;
  if (!file_) throw FileError(name_ + " cannot be written to: the stats of this batch are lost");
}

void StatsFile::batch_ends(const BatchRecord& record) {
  const BatchResult& result = *record.result;
  write({"batch", record.place, result.samples, result.loss, result.micro_batches, result.largest_micro_batch,
         result.refusals, record.seconds});
}

void StatsFile::epoch_ends(const EpochRecord& record) {
  write({"epoch", record.place, record.samples, record.loss, record.micro_batches, record.largest_micro_batch,
         record.refusals, record.seconds});
}

void Display::batch_ends(const BatchRecord& record) {
  show_({record.place, record.result->loss, record.result->samples, record.seconds});
}

}  // namespace speedtorch::infinity
