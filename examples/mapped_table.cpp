#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>
#include <string>

#include "speedtorch/files/mapped_file.h"

using speedtorch::Access;
using speedtorch::MappedFile;

int main(int argc, char** argv) {
  // 1,000,000 rows of 128 floats, zeros at first. np.load reads the file.
  const std::string path = argc > 1 ? argv[1] : "table.npy";
  const auto file = std::filesystem::exists(path) ? MappedFile::open(path, Access::read_write)
                                                  : MappedFile::create(path, {1'000'000, 128}, at::kFloat);

  const at::Tensor index = at::tensor({7, 999'999}, at::kLong);
  at::Tensor rows = at::empty({2, 128});
  speedtorch::gather_rows(*file, index, rows);   // rows[i] = table[index[i]]
  rows.add_(1);                                  // an optimizer's step would stand here
  speedtorch::scatter_rows(*file, index, rows);  // table[index[i]] = rows[i]
  file->flush();                                 // from here on no crash takes it back

  std::cout << "row 7 was updated " << file->array()[7][0].item<float>() << " times\n";
  return 0;
}
