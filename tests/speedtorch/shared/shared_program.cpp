/// A process that holds or attaches a shared table. Answers each line of input:
///
///   hold NAME ROWS holder|row_locks PLACEMENT   holds whole rows of writer 0 ("held")
///   attach NAME read_only|read_write            ("attached ROWS")
///   gather SEED COUNT                           how many of the gathered rows are torn
///   scatter TAG BATCHES                         writes batches of any rows as writer TAG ("written")
///   add BATCHES                                 adds 1 to each element of the table, so often ("added")
///   torn                                        how many rows of the table are torn
///   sum                                         the sum of all elements
///   child                                       forks a child that waits for ever; its process number
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sum.h>
#include <unistd.h>

#include <optional>
#include <sstream>

#include "speedtorch/rows/rows.h"
#include "speedtorch/shared/shared_table.h"
#include "speedtorch/tables/table_rows.h"
#include "tests/speedtorch/line_program.h"
#include "tests/speedtorch/shared/whole_rows.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kBatch = 200;

class Session {
 public:
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "hold") return hold(words);
    if (what == "attach") return attach(words);
    if (what == "gather") return gather(words);
    if (what == "scatter") return scatter(words);
    if (what == "add") return add(words);
    if (what == "torn") return std::to_string(test::torn(shared_->table().tensor()));
    if (what == "sum") return std::to_string(shared_->table().tensor().sum().item<std::int64_t>());
    if (what == "child") return child();
    return "no such command: " + what;
  }

 private:
  std::string hold(std::istream& words) {
    std::string name, writers, placement;
    std::int64_t rows = 0;
    words >> name >> rows >> writers >> placement;
    const auto table = Table::from_array(
        test::all_rows_by(0, rows),
        {.placement = placement == "mapped" ? Placement::mapped : Placement::pageable, .shared = true});
    shared_ = SharedTable::hold(name, table,
                                {.writers = writers == "holder" ? Writers::holder : Writers::row_locks});
    return "held";
  }
  std::string attach(std::istream& words) {
    std::string name, access;
    words >> name >> access;
    shared_ =
        SharedTable::attach(name, {.access = access == "read_write" ? Access::read_write : Access::read_only,
                                   .timeout = std::chrono::minutes(1)});
    return "attached " + std::to_string(shared_->table().rows());
  }
  std::string gather(std::istream& words) {
    std::uint64_t seed = 0;
    std::int64_t count = 0;
    words >> seed >> count;
    const auto index = test::any_rows(seed, count, shared_->table().rows());
    return std::to_string(test::torn(gather_rows(shared_->table(), index, at::kCPU), index));
  }
  std::string scatter(std::istream& words) {
    std::int64_t tag = 0, batches = 0;
    words >> tag >> batches;
    for (std::int64_t k = 0; k < batches; ++k) {
      const auto index = test::any_rows(static_cast<std::uint64_t>(k), kBatch, shared_->table().rows());
      shared_->scatter(index, test::rows_by(tag, index));
    }
    return "written";
  }
  std::string add(std::istream& words) {
    std::int64_t batches = 0;
    words >> batches;
    const auto one = at::ones_like(shared_->table().tensor());
    const auto all = at::arange(shared_->table().rows(), at::kLong);
    for (std::int64_t k = 0; k < batches; ++k) shared_->scatter(all, one, Duplicates::accumulate);
    return "added";
  }
  static std::string child() {
    const auto forked = ::fork();
    while (forked == 0) ::pause();
    return std::to_string(forked);
  }

  std::optional<SharedTable> shared_;
};

}  // namespace
}  // namespace speedtorch

int main() {
  speedtorch::Session session;
  return speedtorch::answer_lines([&](const std::string& line) { return session.answer(line); });
}
