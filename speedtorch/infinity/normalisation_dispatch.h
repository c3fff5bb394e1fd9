/// Sees the batch and instance normalisations of a forward pass, whatever the model consists of.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>

namespace speedtorch::infinity {

/// LibTorch's operations that normalise a batch, without `aten::`. The argument `training` is the one at
/// kTrainingArgument in each.
constexpr std::array<std::string_view, 4> kBatchNormOperations = {
    "batch_norm", "native_batch_norm", "_batch_norm_impl_index", "cudnn_batch_norm"};
constexpr std::size_t kTrainingArgument = 5;

/// While it lives, LibTorch dispatches the normalisations of this thread to it, also those within modules.
/// The innermost one sees them. The dispatch key is one of LibTorch's for extensions (AutocastPrivateUse1);
/// all other operations fall through it and take no more time.
class NormalisationDispatch {
 public:
  NormalisationDispatch(const NormalisationDispatch&) = delete;
  NormalisationDispatch& operator=(const NormalisationDispatch&) = delete;

  /// A normalisation begins that may take statistics of its samples.
  virtual void begins() {}
  /// Replaces at::batch_norm in training mode. An undefined result: LibTorch normalises.
  virtual at::Tensor batch_norm(const at::Tensor& /*input*/, const at::Tensor& /*weight*/,
                                const at::Tensor& /*bias*/, const at::Tensor& /*running_mean*/,
                                const at::Tensor& /*running_variance*/, double /*momentum*/, double /*eps*/) {
    return {};
  }

 protected:
  NormalisationDispatch();
  virtual ~NormalisationDispatch();

 private:
  NormalisationDispatch* outer_;
  bool was_excluded_;
  bool was_included_;
};

/// Notices normalisations that may take statistics of their samples. LibTorch computes them.
class NormalisationNotice final : public NormalisationDispatch {
 public:
  void begins() override { noticed_ = true; }
  [[nodiscard]] bool noticed() const { return noticed_; }

 private:
  bool noticed_ = false;
};

}  // namespace speedtorch::infinity
