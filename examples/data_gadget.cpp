#include <ATen/ATen.h>

#include <iostream>
#include <span>
#include <vector>

#include "speedtorch/tables/data_gadget.h"

int main() {
  // 1,000 samples of 28 × 28, from an array in memory; a file or a tensor will do as well.
  const std::vector<float> pixels(1000 * 28 * 28, 1.0F);
  auto data = speedtorch::DataGadget::from_array(std::span(pixels), {1000, 28, 28});

  // The next batch is gathered while this one is worked on.
  double sum = 0;
  data.prefetch(speedtorch::RowRange{0, 100});
  for (std::int64_t first = 100; first <= 1000; first += 100) {
    if (first < 1000) data.prefetch(speedtorch::RowRange{first, first + 100});
    sum += data.take().sum().item<double>();  // [100, 28, 28]
  }
  std::cout << "sum " << sum << '\n';

  data.insert_data(at::zeros({1, 28, 28}), at::tensor({7}, at::kLong));
  data.save("samples.npy");  // np.load reads it
  const auto again = speedtorch::DataGadget::from_file("samples.npy");
  std::cout << "sum " << again.host_copy().sum().item<double>() << '\n';
  return 0;
}
