#include <ATen/ATen.h>

#include <iostream>

#include "speedtorch/memory/memory.h"
#include "speedtorch/rows/rows.h"

int main() {
  // 100,000 rows of 128 floats in huge pages; the memory lives as long as its last tensor.
  const auto memory = speedtorch::allocate(speedtorch::Placement::hugepage, 100'000 * 128 * 4);
  at::Tensor table = memory->tensor({100'000, 128}, at::kFloat).zero_();

  const at::Tensor index = at::randperm(100'000, at::kLong).slice(0, 0, 4096).contiguous();
  at::Tensor rows = at::empty({4096, 128});
  speedtorch::gather_rows(table, index, rows);   // rows[i] = table[index[i]]
  rows.add_(1);                                  // an optimizer's step would stand here
  speedtorch::scatter_rows(table, index, rows);  // table[index[i]] = rows[i]

  std::cout << "sum " << table.sum().item<double>() << '\n';  // 4096 × 128 ones
  return 0;
}
