// Trains a small convolutional net on real digits with batches that do not fit under a cap, and compares it
// with the same training without one.
//
//   digits FOLDER [epochs]
//
// FOLDER has images.npy and classes.npy (examples/digits/export.py makes them of scikit-learn's digits), or
// MNIST's own files train-images-idx3-ubyte and train-labels-idx1-ubyte.
#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/pooling.h>
#include <torch/optim/adam.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "speedtorch/files/mapped_file.h"
#include "speedtorch/infinity/infinity_batch.h"
#include "speedtorch/infinity/out_of_memory.h"
#include "speedtorch/memory/capped_allocator.h"

namespace {

using speedtorch::InfinityBatch;
using speedtorch::infinity::Data;
using speedtorch::infinity::Tensors;

constexpr std::int64_t kBatch = 1024;

struct Digits {
  at::Tensor images;   // float32 [n, 1, height, width], 0 to 1
  at::Tensor classes;  // int64 [n]
};

// One of MNIST's files: a header of big-endian numbers, the last byte of whose first says how many dimensions
// follow, and then bytes.
at::Tensor read_idx(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const auto number = [&] {
    unsigned char bytes[4] = {};
    file.read(reinterpret_cast<char*>(bytes), 4);
    return static_cast<std::int64_t>((bytes[0] << 24) | (bytes[1] << 16) | (bytes[2] << 8) | bytes[3]);
  };
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(number() & 0xff));
  for (std::int64_t& size : sizes) size = number();
  at::Tensor content = at::empty(sizes, at::kByte);
  file.read(static_cast<char*>(content.mutable_data_ptr()), content.numel());
  if (!file) throw std::runtime_error(path.filename().string() + " is not whole");
  return content;
}

Digits read(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "train-images-idx3-ubyte"))
    return {read_idx(folder / "train-images-idx3-ubyte").unsqueeze(1).to(at::kFloat) / 255,
            read_idx(folder / "train-labels-idx1-ubyte").to(at::kLong)};
  const auto array = [&](const char* name) {
    return speedtorch::MappedFile::open((folder / name).string(), speedtorch::Access::read_only)->array();
  };
  return {array("images.npy"), array("classes.npy")};
}

// Every fifth one is for the test.
Digits part(const Digits& all, bool test) {
  const at::Tensor fifth = at::arange(all.classes.size(0)).remainder(5).eq(0);
  const at::Tensor chosen = (test ? fifth : fifth.logical_not()).nonzero().squeeze(1);
  return {all.images.index_select(0, chosen), all.classes.index_select(0, chosen)};
}

torch::nn::Sequential net_for(const at::Tensor& images) {
  at::manual_seed(1);
  const std::int64_t features = 32 * (images.size(2) / 2) * (images.size(3) / 2);
  return torch::nn::Sequential(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)), torch::nn::ReLU(),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)), torch::nn::ReLU(),
      torch::nn::MaxPool2d(2), torch::nn::Flatten(), torch::nn::Linear(features, 10));
}

double share_right(const Tensors& outputs, const Tensors& classes) {
  return outputs[0].argmax(1).eq(classes[0]).to(at::kDouble).mean().item<double>();
}

// A batch at once, as usually; false where memory did not suffice.
bool plain_step_fits(const Digits& digits) {
  auto net = net_for(digits.images);
  return speedtorch::infinity::had_memory_for([&] {
    const auto first = [](const at::Tensor& all) { return all.narrow(0, 0, std::min(kBatch, all.size(0))); };
    torch::nn::CrossEntropyLoss()(net->forward(first(digits.images)), first(digits.classes)).backward();
  });
}

double accuracy_after(std::int64_t epochs, const Digits& train, const Digits& test,
                      std::int64_t micro_batch) {
  auto net = net_for(train.images);
  torch::optim::Adam optimizer(net->parameters(), 0.003);
  speedtorch::InfinityBatchOptions options;
  options.micro_batch.fixed = micro_batch;
  InfinityBatch ib(
      net, optimizer, torch::nn::CrossEntropyLoss(),
      Data::of_tensors({train.images}, {train.classes}, {.batch = kBatch, .shuffle = true, .seed = 5}),
      options);
  ib(epochs);
  const auto found = ib.eval(Data::of_tensors({test.images}, {test.classes}, {.batch = kBatch}),
                             {{"accuracy", share_right}});
  return found.metrics.at("accuracy");
}

int run(const std::filesystem::path& folder, std::int64_t epochs) {
  auto& memory = speedtorch::CappedAllocator::install();
  const Digits all = read(folder);
  const Digits train = part(all, false);
  const Digits test = part(all, true);
  const double uncapped = accuracy_after(epochs, train, test, kBatch);

  memory.set_cap(memory.allocated() + (4 << 20));
  const bool fits = plain_step_fits(train);
  memory.reset_peak();
  const std::int64_t before = memory.allocated();
  const double capped = accuracy_after(epochs, train, test, 0);
  std::printf("%lld digits, batches of %lld under a cap of 4.2 MB\n",
              static_cast<long long>(train.classes.size(0)), static_cast<long long>(kBatch));
  std::printf("plain batch: %s\n", fits ? "fits" : "out of memory");
  std::printf("InfinityBatch: accuracy %.3f, %.1f MB at most; without the cap: %.3f\n", capped,
              static_cast<double>(memory.peak() - before) * 1e-6, uncapped);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  speedtorch::CappedAllocator::install();  // before the first tensor
  if (argc < 2) {
    std::fprintf(stderr, "usage: digits FOLDER [epochs]\n");
    return 2;
  }
  try {
    return run(argv[1], argc > 2 ? std::atoll(argv[2]) : 30);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 2;
  }
}
