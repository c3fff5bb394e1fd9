/// Fixtures of tests that need one or two GPUs; skipped if there are fewer.
#pragma once

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "speedtorch/cuda.h"

namespace speedtorch::test {

class NeedsGpu : public testing::Test {
 protected:
  void SetUp() override {
    const auto& status = cuda_status();
    if (!status.available) GTEST_SKIP() << status.found << "; missing: " << status.missing;
    at::manual_seed(1);
  }
};

class NeedsTwoGpus : public NeedsGpu {
 protected:
  void SetUp() override {
    NeedsGpu::SetUp();
    if (!IsSkipped() && cuda_status().devices < 2) GTEST_SKIP() << "there is one GPU only";
  }
};

}  // namespace speedtorch::test
