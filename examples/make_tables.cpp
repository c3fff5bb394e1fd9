#include <ATen/ATen.h>

#include <iostream>

#include "speedtorch/error.h"
#include "speedtorch/tables/table.h"

int main() {
  using speedtorch::Placement;
  using speedtorch::Table;

  // The same seed gives the same numbers in every placement, on any number of threads.
  const speedtorch::Uniform small{-0.1, 0.1, /*seed=*/42};
  const Table huge = Table::filled({100'000, 64}, at::kFloat, small);  // in huge pages
  const Table plain = Table::filled({100'000, 64}, at::kFloat, small, {.placement = Placement::pageable});
  std::cout << "equal: " << at::equal(huge.tensor(), plain.tensor()) << '\n';

  // Any fill: each row its number. The pieces are set on several threads at once.
  const speedtorch::ByPieces numbers = [](at::Tensor& rows, std::int64_t first) {
    rows.copy_(at::arange(first, first + rows.size(0)).unsqueeze(1).expand(rows.sizes()));
  };
  const at::Tensor rows = Table::filled({1000, 8}, at::kLong, numbers).tensor();  // keeps the memory alive
  std::cout << "row 999: " << rows[999][0].item<std::int64_t>() << '\n';

  // The program refuses unavailable memory before it takes any.
  try {
    (void)Table::empty({1'000'000'000'000, 128}, at::kFloat);
  } catch (const speedtorch::LimitError& error) {
    std::cout << "refused: " << error.asked() << " bytes\n";
  }
  return 0;
}
