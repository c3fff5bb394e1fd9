#include <ATen/ATen.h>

#include <iostream>

#include "speedtorch/error.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/gather.h"

int main() {
  using speedtorch::Duplicates;

  // A new tensor, of the index's shape before the rows', that autograd knows.
  at::Tensor table = at::ones({5, 2}).requires_grad_();
  const at::Tensor index = at::tensor({3, 0, 3, 3}, at::kLong).view({2, 2});
  at::Tensor rows = speedtorch::gather_rows(table, index);  // [2, 2, 2]
  rows.sum().backward();
  std::cout << "row 3 got the gradient " << table.grad()[3][0].item<float>() << " times\n";

  // A scatter says what happens to rows that are named twice.
  at::Tensor counts = at::zeros({5, 2});
  speedtorch::scatter_rows(counts, index, at::ones({4, 2}), Duplicates::accumulate);
  std::cout << "row 3 was named " << counts[3][0].item<float>() << " times\n";
  try {
    speedtorch::scatter_rows(counts, index, at::ones({4, 2}), Duplicates::reject);
  } catch (const speedtorch::DuplicateError& error) {
    std::cout << "row " << error.row() << ": at " << error.first() << " and " << error.second() << '\n';
  }
  return 0;
}
