// usage: instructions_per_row ROWS: moves ROWS rows of each kind once, each in a call of measured(), so that
// callgrind can count the instructions of each call (--dump-after). Writes what it was built with and the
// kinds, in the order of their calls. What memory is prepared does not depend on ROWS.

#include <hwy/highway.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "speedtorch/kernels/isa.h"
#include "speedtorch/kernels/parallel.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"

using namespace speedtorch::kernels;

namespace {

constexpr std::int64_t kMostRows = 2048;
constexpr std::int64_t kTableRows = 4099;  // prime, so the index below repeats none
constexpr std::int64_t kWidest = 2112;

}  // namespace

/// What callgrind counts; it finds it by this name.
extern "C" [[gnu::noipa]] void measured(FunctionRef<void()> work) {
  work();
  asm volatile("");  // so that the call above is no jump, with which this function would have ended
}

namespace {

/// Memory of 64-byte lines.
struct alignas(kLineBytes) Line {
  std::byte bytes[kLineBytes];
};

class Program {
 public:
  explicit Program(std::int64_t rows)
      : rows_(rows), table_(kTableRows * kWidest / kLineBytes), ready_(table_.size()) {
    for (std::size_t i = 0; i < index_.size(); ++i)
      index_[i] = static_cast<std::int64_t>(i) * 1409 % kTableRows;
    for (std::size_t i = 0; i < index_.size(); ++i) narrow_index_[i] = static_cast<std::int32_t>(index_[i]);
    std::memset(table_.data(), 1, table_.size() * sizeof(Line));
    std::memset(ready_.data(), 2, ready_.size() * sizeof(Line));
  }

  void count_all() {
    for (const std::int64_t width : {16, 160, 512}) {
      count_gather(width, Stores::cached);
      count_scatter(width, Stores::cached);
    }
    for (const std::int64_t width : {512, 2052}) count_gather(width, Stores::streaming);
    for (const std::int64_t width : {512, 516}) count_scatter(width, Stores::streaming);
    count("check int32", [&] { good_ = good_ && all_inside(narrow_index_.data(), rows_, kTableRows); });
    count("check int64", [&] { good_ = good_ && all_inside(index_.data(), rows_, kTableRows); });
  }

  /// Whether the checks found their indices good.
  bool good() const { return good_; }

 private:
  static std::byte* bytes_of(std::vector<Line>& lines) { return reinterpret_cast<std::byte*>(lines.data()); }

  static std::string kind(const char* direction, std::int64_t width, Stores stores) {
    return std::string(direction) + " " + std::to_string(width) +
           (stores == Stores::streaming ? " streaming" : " cached");
  }

  void count(const std::string& name, FunctionRef<void()> work) {
    std::printf("counted %s\n", name.c_str());
    measured(work);
  }

  void count_gather(std::int64_t width, Stores stores) {
    auto move = plan_gather<std::int64_t>({bytes_of(table_), kTableRows, width, width}, index_.data(),
                                          {bytes_of(ready_), rows_, width, width});
    move.stores = stores;
    count(kind("gather", width, stores), [&] { run(move, 0, rows_); });
  }

  void count_scatter(std::int64_t width, Stores stores) {
    auto move = plan_scatter<std::int64_t>({bytes_of(ready_), rows_, width, width}, index_.data(),
                                           {bytes_of(table_), kTableRows, width, width});
    move.stores = stores;
    if (stores == Stores::streaming && width % kLineBytes == 0) move.prefetch_rows = 0;  // as the plan has it
    count(kind("scatter", width, stores), [&] { run(move, 0, rows_); });
  }

  std::int64_t rows_;
  std::vector<Line> table_, ready_;
  std::vector<std::int64_t> index_ = std::vector<std::int64_t>(kMostRows);
  std::vector<std::int32_t> narrow_index_ = std::vector<std::int32_t>(kMostRows);
  bool good_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  std::int64_t rows = 0;
  if (argc == 2) std::from_chars(argv[1], argv[1] + std::strlen(argv[1]), rows);
  if (rows < 1 || rows > kMostRows) {
    std::fprintf(stderr, "usage: instructions_per_row ROWS, from 1 to %d\n", static_cast<int>(kMostRows));
    return 2;
  }
  std::printf("isa %s\n", std::string(isa_in_use()).c_str());
  std::printf("compiler %s\n", STBENCH_COMPILER);
  std::printf("build %s\n", STBENCH_BUILD);
  std::printf("highway %d.%d\n", HWY_MAJOR, HWY_MINOR);
  // The same on every machine.
  use_plan(default_plan(ProcessorFamily::other, std::int64_t{32} << 20));
  Program program(rows);
  program.count_all();
  return program.good() ? 0 : 1;
}
