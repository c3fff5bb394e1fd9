#include <ATen/ATen.h>

#include <iostream>

#include "speedtorch/optim/sparse_rows.h"

int main() {
  // 100,000 rows of 16 floats and their two states, all in huge pages.
  const speedtorch::Table table = speedtorch::Table::filled({100'000, 16}, at::kFloat, speedtorch::Zeros{});
  speedtorch::SparseRows rows(table.host_tensor(), speedtorch::AdamOptions{.lr = 0.05});

  // Each row that is used is drawn towards ones. Rows come up several times in a batch, as words do in a
  // text.
  at::Tensor index, used;
  for (int step = 0; step < 200; ++step) {
    index = at::randint(0, 500, {4096}, at::kLong);
    used = rows.table().index_select(0, index);
    rows.step(index, (used - 1) / 8);  // the gradient of each use; those of one row are added up
  }
  const at::Tensor distance = (rows.table().slice(0, 0, 500) - 1).abs().max();
  std::cout << "rows used are ones: " << (distance.item<float>() < 0.1F ? "yes" : "no") << '\n'
            << "others are zeros: "
            << (rows.table().slice(0, 500).count_nonzero().item<std::int64_t>() == 0 ? "yes" : "no") << '\n';
  return 0;
}
