#include <ATen/ATen.h>

#include <iostream>

#include "speedtorch/tables/co_occurrence.h"

int main() {
  const at::Tensor text = at::arange(100'000).remainder(1000);      // words by their numbers
  speedtorch::CoOccurrence counts(1000);                            // int64, 1000 × 1000
  counts.add_pairs(text.slice(0, 0, -1), text.slice(0, 1));         // each word with the next
  const at::Tensor row = counts.rows(at::tensor({41}, at::kLong));  // [1, 1000]
  std::cout << "42 follows 41 " << row[0][42].item<std::int64_t>() << " times\n";
  counts.save("counts.npy");
  return 0;
}
