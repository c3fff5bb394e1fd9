// Trials of LibTorch's operators: the same program on the CPU and on the emulated GPU.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace emulated_gpu {

/// Loads LibTorch's CUDA half, as a program does that wants a GPU.
void load_cuda();

/// Makes the inputs of a trial. They are drawn on the host, so that both devices get the same.
class Inputs {
 public:
  explicit Inputs(at::Device device) : device_(device) {}

  at::Device device() const { return device_; }
  at::TensorOptions options(at::ScalarType type = at::kFloat) const {
    return at::TensorOptions().device(device_).dtype(type);
  }

  /// Returns normally distributed numbers.
  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType type = at::kFloat);
  /// Returns integers of [0, bound).
  at::Tensor integers(std::int64_t bound, at::IntArrayRef sizes, at::ScalarType type = at::kLong);
  /// Returns the values on the device, and compares them after the trial like all inputs.
  at::Tensor keep(const at::Tensor& values);
  /// Returns a parameter for autograd.
  at::Tensor parameter(at::IntArrayRef sizes) { return normal(sizes).requires_grad_(true); }

  const std::vector<at::Tensor>& made() const { return made_; }

 private:
  at::Device device_;
  std::vector<at::Tensor> made_;
};

using Tensors = std::vector<at::Tensor>;

inline Tensors as_list(const Tensors& tensors) { return tensors; }
inline Tensors as_list(const at::Tensor& tensor) { return {tensor}; }
template <class... Each>
Tensors as_list(const std::tuple<Each...>& tensors) {
  return std::apply([](const auto&... each) { return Tensors{each...}; }, tensors);
}

struct Trial {
  std::string name;
  std::function<std::vector<at::Tensor>(Inputs&)> run;
  double tolerance = 0;  ///< relative and absolute; zero wants the same bits
};

struct Trials {
  std::vector<Trial> list;

  /// @param run returns a tensor, or a tuple or list of them
  template <class Run>
  void add(std::string name, Run run) {
    add(std::move(name), 0, run);
  }
  template <class Run>
  void add(std::string name, double tolerance, Run run) {
    list.push_back({std::move(name), [run](Inputs& in) { return as_list(run(in)); }, tolerance});
  }
};

inline void PrintTo(const Trial& trial, std::ostream* out) { *out << trial.name; }

/// Runs a trial on both devices and expects the same results, and the same values in its inputs afterwards.
void expect_same_on_both(const Trial& trial);

/// The test of each trial.
class Operators : public testing::TestWithParam<Trial> {
  void SetUp() override { load_cuda(); }
};

inline std::string trial_name(const testing::TestParamInfo<Trial>& info) { return info.param.name; }

}  // namespace emulated_gpu
