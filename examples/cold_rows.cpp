#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>

#include "speedtorch/files/file_rows.h"
#include "speedtorch/files/mapped_file.h"

int main() {
  // 100,000 rows of 32 floats in a file that np.load reads; in row i each is i.
  std::filesystem::remove("cold_rows.npy");  // of an earlier run: a file never replaces another
  const auto file = speedtorch::MappedFile::create("cold_rows.npy", {100'000, 32}, at::kFloat);
  file->array().copy_(at::arange(100'000).view({-1, 1}).expand({-1, 32}));
  file->flush();

  const at::Tensor index = at::tensor({99'999, 7, 7}, at::kLong);
  at::Tensor out = at::empty({3, 32});
  speedtorch::FileRows rows({file->fd(), file->data_offset(), /*rows=*/100'000, /*row_bytes=*/32 * 4});
  rows.gather(index, out);  // out[i] = row index[i] of the file

  std::cout << out[0][0].item<float>() << ' ' << out[1][31].item<float>() << ' ' << out[2][0].item<float>()
            << '\n';
  return 0;
}
