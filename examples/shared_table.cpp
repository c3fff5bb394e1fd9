#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <string>

#include "speedtorch/shared/shared_table.h"
#include "speedtorch/tables/table_rows.h"

namespace {

/// The work of each other process.
void serve(const std::string& name) {
  using speedtorch::SharedTable;
  const auto shared =
      SharedTable::attach(name, {.access = speedtorch::Access::read_write, .dtype = at::kFloat});
  const at::Tensor index = at::tensor({3, 0, 3}, at::kLong);
  const at::Tensor rows = gather_rows(shared.table(), index, at::kCPU);  // [3, 8]
  shared.scatter(index.narrow(0, 0, 1), rows.narrow(0, 0, 1), speedtorch::Duplicates::accumulate);
}

}  // namespace

int main() {
  using speedtorch::SharedTable;
  using speedtorch::Table;

  // One process fills the table, in memory that can be shared, and holds it under a name.
  const std::string name = "words of " + std::to_string(::getpid());
  const Table words = Table::from_array(at::ones({1000, 8}), {.shared = true});
  const SharedTable held = SharedTable::hold(name, words, {.writers = speedtorch::Writers::row_locks});

  const pid_t other = ::fork();  // any process of this user, also one that is not forked
  if (other == 0) {
    at::set_num_threads(1);
    serve(name);
    ::_exit(0);
  }
  ::waitpid(other, nullptr, 0);
  std::cout << "row 3 is " << held.table().tensor()[3][0].item<float>() << '\n';
  return 0;
}
