#include "tests/emulated_gpu/torch/trial.h"

#include <dlfcn.h>

#include <stdexcept>

namespace emulated_gpu {
namespace {

struct Outcome {
  std::vector<at::Tensor> results, inputs;
};

Outcome run_on(const Trial& trial, at::Device device) {
  at::manual_seed(11);
  Inputs inputs(device);
  Outcome outcome;
  for (const auto& result : trial.run(inputs)) outcome.results.push_back(result);
  outcome.inputs = inputs.made();
  return outcome;
}

void expect_same(const std::vector<at::Tensor>& host, const std::vector<at::Tensor>& gpu, double tolerance,
                 const char* what) {
  ASSERT_EQ(host.size(), gpu.size());
  for (std::size_t i = 0; i < host.size(); ++i) {
    SCOPED_TRACE(std::string(what) + " " + std::to_string(i));
    ASSERT_EQ(host[i].defined(), gpu[i].defined());
    if (!host[i].defined()) continue;
    EXPECT_TRUE(gpu[i].is_cuda());
    ASSERT_EQ(host[i].sizes(), gpu[i].sizes());
    ASSERT_EQ(host[i].scalar_type(), gpu[i].scalar_type());
    const auto got = gpu[i].detach().cpu(), want = host[i].detach();
    EXPECT_TRUE(at::allclose(got, want, tolerance, tolerance, /*equal_nan=*/true))
        << "on the CPU\n"
        << want << "\non the emulated GPU\n"
        << got;
  }
}

}  // namespace

TEST_P(Operators, GiveWhatTheCpuGives) { expect_same_on_both(GetParam()); }

void load_cuda() {
  static void* const handle = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
}

at::Tensor Inputs::normal(at::IntArrayRef sizes, at::ScalarType type) {
  return keep(at::randn(sizes).to(type));
}

at::Tensor Inputs::integers(std::int64_t bound, at::IntArrayRef sizes, at::ScalarType type) {
  return keep(at::randint(bound, sizes, at::kLong).to(type));
}

at::Tensor Inputs::keep(const at::Tensor& values) {
  made_.push_back(values.to(device_));
  return made_.back();
}

void expect_same_on_both(const Trial& trial) {
  const auto host = run_on(trial, at::kCPU);
  const auto gpu = run_on(trial, at::Device(at::kCUDA, 0));
  expect_same(host.results, gpu.results, trial.tolerance, "result");
  expect_same(host.inputs, gpu.inputs, trial.tolerance, "input");
}

}  // namespace emulated_gpu
