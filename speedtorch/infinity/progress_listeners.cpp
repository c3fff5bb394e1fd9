#include "speedtorch/infinity/progress_listeners.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <utility>

#include "speedtorch/system/new_file.h"
#include "speedtorch/system/size_signal.h"
#include "speedtorch/system/unfinished.h"

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
    : name_(base_name(path)),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666)),
      csv_(path.ends_with(".csv")) {
  struct stat found {};
  if (!file_.valid() || ::fstat(file_.get(), &found) != 0) refuse_path(path, "cannot be opened for stats");
  if (csv_ && found.st_size == 0)
    append(
        "kind,epoch,batch,step,samples,loss,micro_batches,largest_micro_batch,refusals,seconds,"
        "samples_per_second\n");
}

void StatsFile::append(std::string_view text) const {
  const SizeSignalBlocked blocked;
  const auto begin = ::lseek(file_.get(), 0, SEEK_END);
  while (!text.empty()) {
    const auto count = ::write(file_.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      if (begin >= 0) static_cast<void>(!::ftruncate(file_.get(), begin));  // no half line stays
      errno = error;
      refuse_file(name_, "cannot be written, stats are lost");
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void StatsFile::write(const Line& line) const {
  const auto& place = line.place;
  const std::array<std::pair<const char*, std::string>, 11> fields{{
      {"kind", csv_ ? line.kind : '"' + std::string(line.kind) + '"'},
      {"epoch", std::to_string(place.epoch)},
      {"batch", std::to_string(place.batch)},
      {"step", std::to_string(place.step)},
      {"samples", std::to_string(line.samples)},
      {"loss", number(line.loss)},
      {"micro_batches", std::to_string(line.micro_batches)},
      {"largest_micro_batch", std::to_string(line.largest_micro_batch)},
      {"refusals", std::to_string(line.refusals)},
      {"seconds", number(line.seconds)},
      {"samples_per_second", number(static_cast<double>(line.samples) / line.seconds)},
  }};
  std::string text;
  for (const auto& [name, value] : fields) {
    text += text.empty() ? (csv_ ? "" : "{") : (csv_ ? "," : ", ");
    text += csv_ ? value : '"' + std::string(name) + "\": " + (value.empty() ? "null" : value);
  }
  append(text + (csv_ ? "\n" : "}\n"));
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
