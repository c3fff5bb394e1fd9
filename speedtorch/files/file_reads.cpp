#include "speedtorch/files/file_reads.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "speedtorch/error.h"
#include "speedtorch/system/parallel_read.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr std::int64_t page = 4096;

/// True if the row at `offset` starts on the read's last page or the next one, so that the read fetches it
/// without a further page.
bool joins(const FileRead& read, std::int64_t offset, std::int64_t row_bytes) {
  const auto end = std::max(read.offset + read.bytes, offset + row_bytes);
  return offset / page <= (read.offset + read.bytes - 1) / page + 1 && end - read.offset <= most_joined_bytes;
}

class AdviceReader final : public FileReader {
 public:
  explicit AdviceReader(int depth) : depth_(depth) {}

  void read(const ReadJob& job) override {
    const auto count = std::ssize(job.plan->reads);
    for (std::int64_t begin = 0; begin < count; begin += depth_) {
      const auto end = std::min(count, begin + depth_);
      for (auto i = begin; i < end; ++i) advise(job.table.fd, job.plan->reads[static_cast<std::size_t>(i)]);
      take(job, begin, end);
    }
  }

 private:
  /// Starts reading the pages. Best effort: if it fails, pread waits a little longer.
  static void advise(int fd, const FileRead& read) {
    ::posix_fadvise(fd, read.offset, read.bytes, POSIX_FADV_WILLNEED);
  }

  static void take(const ReadJob& job, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t grain = 16;
    parallel_for(end - begin, grain, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::byte> buffer;
      for (auto i = begin + first; i < begin + last; ++i) {
        const auto& one = job.plan->reads[static_cast<std::size_t>(i)];
        auto* to = job.first_place(one);
        if (!job.is_direct(one)) buffer.resize(most_joined_bytes), to = buffer.data();
        const auto [count, error] = read_bytes(job.table.fd, one.offset, to, one.bytes);
        if (count < one.bytes) refuse_read(one.offset + count, one.bytes - count, error);
        job.deliver(one, to);
      }
    });
  }

  std::int64_t depth_;
};

}  // namespace

template <class Index>
ReadPlan plan_reads(const Index* index, std::int64_t count, const FileTable& table) {
  ReadPlan plan;
  plan.named.reserve(static_cast<std::size_t>(count));
  bool ascending = true;
  for (std::int64_t i = 0; i < count; ++i) {
    ascending = ascending && (i == 0 || index[i - 1] <= index[i]);
    plan.named.push_back({static_cast<std::int64_t>(index[i]), i});
  }
  if (!ascending) std::ranges::sort(plan.named, {}, &NamedRow::row);
  for (std::int64_t k = 0; k < count; ++k) {
    const auto offset = table.offset + plan.named[static_cast<std::size_t>(k)].row * table.row_bytes;
    if (!plan.reads.empty()) {
      auto& last = plan.reads.back();
      const bool again = offset + table.row_bytes == last.offset + last.bytes;
      if (again || joins(last, offset, table.row_bytes)) {
        last.bytes = offset + table.row_bytes - last.offset;
        last.last = k + 1;
        continue;
      }
    }
    plan.reads.push_back({offset, table.row_bytes, k, k + 1});
  }
  return plan;
}

template ReadPlan plan_reads(const std::int32_t*, std::int64_t, const FileTable&);
template ReadPlan plan_reads(const std::int64_t*, std::int64_t, const FileTable&);

bool ReadJob::is_direct(const FileRead& read) const { return read.bytes == table.row_bytes; }

std::byte* ReadJob::first_place(const FileRead& read) const {
  return out + plan->named[static_cast<std::size_t>(read.first)].position * table.row_bytes;
}

void ReadJob::deliver(const FileRead& read, const std::byte* data) const {
  for (auto k = read.first; k < read.last; ++k) {
    const auto& [row, position] = plan->named[static_cast<std::size_t>(k)];
    auto* to = out + position * table.row_bytes;
    const auto* from = data + (table.offset + row * table.row_bytes - read.offset);
    if (to != from) std::memcpy(to, from, static_cast<std::size_t>(table.row_bytes));
  }
}

void refuse_read(std::int64_t offset, std::int64_t bytes, int error) {
  throw FileError("cannot read " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                  " of the file: " + (error == 0 ? "it ends before; it was shrunk" : std::strerror(error)));
}

std::unique_ptr<FileReader> make_advice_reader(int depth) { return std::make_unique<AdviceReader>(depth); }

}  // namespace speedtorch
