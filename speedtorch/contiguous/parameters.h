/// All parameters of a model in one buffer and their gradients in another, both seen as views: what
/// contiguous_pytorch_params does for Python, without its traps. docs/contiguous.md has those, and the names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/kernels/steps/update_options.h"
#include "speedtorch/placement.h"

namespace speedtorch {

/// Parameters that are updated alike. `names` are for messages: none, or one each. `options`, where they are
/// given, take the place of the optimizer's defaults (ContiguousOptimizer; ContiguousParameters ignores
/// them).
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  std::vector<std::string> names = {};
  std::optional<UpdateOptions> options = {};
};

/// The group of a module: `named(module->named_parameters())`.
template <class Items>
ParameterGroup named(const Items& parameters, std::optional<UpdateOptions> options = {}) {
  ParameterGroup group;
  for (const auto& item : parameters) {
    group.parameters.push_back(item.value());
    group.names.push_back(item.key());
  }
  group.options = std::move(options);
  return group;
}

/// What happens to a gradient that is not the one that was attached: none, after zero_grad() with its default
/// of setting them to none, or another tensor, as backward makes it then.
enum class DetachedGradient {
  reattach,  ///< its values are copied into the buffer, and the buffer's view takes its place
  refuse,    ///< BufferError
};

struct ContiguousOptions {
  /// Of buffers on the host of 2 MiB or more: `hugepage`, `pageable`, or `libtorch` for LibTorch's own
  /// memory, which smaller ones and those on a GPU get anyway.
  Placement placement = Placement::hugepage;
  DetachedGradient detached_gradient = DetachedGradient::reattach;
};

/// A parameter or gradient no longer lies in its buffer, or a list of parameters cannot be laid out. what()
/// names the parameter, what moved it and the way out.
class BufferError : public Error {
 public:
  using Error::Error;
};

/// Lays parameters out in one buffer for each (dtype, device), in the order in which they were given, group
/// after group, and each view begins at a multiple of 256 bytes. What lies between is held at zero.
///
/// - A parameter that is named twice is laid out once. Two tensors that share memory, one of which is
///   trained, are refused: their tie would be lost.
/// - Frozen parameters (no gradient required) stay where they are; nothing is ever written to them.
/// - Strides are kept (channels_last, transposed); those with gaps become dense. Scalars, empty tensors and
///   an empty list are fine.
/// - Gradients that there are already keep their values.
///
/// The parameters stay the model's own tensors: only where their data lies changes. What then moves them away
/// (`module->to()`, torch::load(), set_data()) is found by the checks and mended by rebuild(). Each gradient
/// has a version counter of its own, so that it is known which were written.
///
/// Not for use by several threads at once.
class ContiguousParameters {
 public:
  /// A buffer of one dtype and device. `data` is a leaf that requires a gradient and whose gradient is
  /// `gradient`: what an optimizer of LibTorch's, or a collective operation, is given.
  struct Bucket {
    at::Tensor data;      ///< [elements], padding included
    at::Tensor gradient;  ///< likewise
  };
  /// Where a parameter lies: elements [begin, begin + count) of a bucket.
  struct Place {
    std::size_t parameter;  ///< its number in original()
    std::size_t group;
    std::size_t bucket;
    std::int64_t begin;
    std::int64_t count;
  };

  /// @throws BufferError for a parameter that is no leaf, is not strided, may overlap itself or overlaps
  /// another, or is not floating point; what `allocate` throws (speedtorch/memory/memory.h).
  explicit ContiguousParameters(std::vector<at::Tensor> parameters, ContiguousOptions options = {});
  explicit ContiguousParameters(std::vector<ParameterGroup> groups, ContiguousOptions options = {});

  ~ContiguousParameters();
  ContiguousParameters(ContiguousParameters&&) noexcept;
  ContiguousParameters& operator=(ContiguousParameters&&) noexcept;

  /// The buffers as leafs, one a bucket: the parameters for an optimizer that does the same to each element.
  [[nodiscard]] std::vector<at::Tensor> contiguous() const;
  /// The parameters as they were given, each once, frozen ones included.
  [[nodiscard]] const std::vector<at::Tensor>& original() const { return parameters_; }
  [[nodiscard]] auto begin() const { return parameters_.begin(); }
  [[nodiscard]] auto end() const { return parameters_.end(); }
  [[nodiscard]] std::size_t size() const { return parameters_.size(); }

  [[nodiscard]] std::span<const Bucket> buckets() const { return buckets_; }
  /// Of each parameter that is not frozen, in the order of the buffers.
  [[nodiscard]] std::span<const Place> places() const { return places_; }
  /// "layer1.weight", or "parameter 3" where no names were given.
  [[nodiscard]] std::string name_of(std::size_t parameter) const;
  [[nodiscard]] std::size_t group_of(std::size_t parameter) const { return groups_[parameter]; }
  [[nodiscard]] std::size_t groups() const { return group_count_; }
  [[nodiscard]] const ContiguousOptions& options() const { return options_; }

  /// Whether each parameter and each gradient is where it was put. Never throws.
  [[nodiscard]] bool buffer_is_valid() const noexcept;
  /// @throws BufferError naming the first that is not, and what moved it.
  void assert_buffer_is_valid() const;

  /// Before a step of any optimizer: as assert_buffer_is_valid(), but gradients that strayed are treated as
  /// options().detached_gradient says; one that is none gets its view back, of zeros.
  /// @throws BufferError where a parameter moved, or a gradient and those are refused.
  void prepare_step();
  /// Zeros the gradients and attaches them again where need be.
  void zero_grad();
  /// Takes the parameters as they are now, wherever they are and of whatever dtype, into new buffers. Their
  /// gradients keep their values, and count as unused where they did. Strong guarantee.
  void rebuild();

  /// Flat tensors, one a bucket and laid out as it is (what a stock optimizer on contiguous() keeps, or a
  /// checkpoint of it has), as one tensor a parameter of original(), in its shape and strides: views. Of
  /// frozen ones, undefined tensors. @throws ShapeError for tensors of another shape
  [[nodiscard]] std::vector<at::Tensor> split(const std::vector<at::Tensor>& flat) const;
  /// The reverse: copies, of the dtype of the first part of each, with zeros between. Parts of frozen
  /// parameters are not looked at. @throws ShapeError naming the parameter
  [[nodiscard]] std::vector<at::Tensor> join(const std::vector<at::Tensor>& parts) const;

  /// Scales the gradients as torch's clip_grad_norm_ does: to a 2-norm of at most `max_norm`. The norm (which
  /// is returned, as it was) is that of all gradients, does not depend on the threads and is added up in
  /// double precision. ContiguousOptimizer::step() does the same without a pass of its own.
  double clip_grad_norm(double max_norm);
  /// Clamps each element to [-max_value, max_value].
  void clip_grad_value(double max_value);

  /// Whether backward, or whoever, wrote to the gradient of the parameter at this place since it was last
  /// zeroed by zero_grad() or a step. A tensor operation on the whole buffer counts for each.
  /// @param place its number in places()
  [[nodiscard]] bool used(std::size_t place) const;
  /// Says that all gradients were written by raw pointers, as MPI does: none counts as unused. Call
  /// prepare_step() before such a write: gradients that strayed are in the buffer then.
  /// @throws BufferError naming a gradient that is not, so that what was written is not of it
  void gradients_written();
  /// Says that the gradients were zeroed by raw pointers: none counts as used.
  void gradients_used();

 private:
  friend class OptimizerState;
  class Views;

  void lay_out();
  [[nodiscard]] std::vector<bool> written() const;
  [[nodiscard]] bool is_intact() const;
  [[nodiscard]] bool frozen_unchanged() const;
  void refuse_moved_data() const;
  [[noreturn]] void refuse_gradient(std::size_t parameter) const;
  [[noreturn]] void refuse_buffer_gradient() const;
  void record_use_per_gradient();
  void reset_buffer_versions();
  void reattach(std::size_t place);
  template <class Operation>
  void on_gradients(const Operation& operation);
  void zero_padding(at::Tensor Bucket::*buffer);

  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  std::vector<std::size_t> groups_;  // of each parameter
  std::size_t group_count_ = 0;
  ContiguousOptions options_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
  std::unique_ptr<Views> views_;
  bool all_used_ = false;
};

/// The seed's name for it.
using ContiguousParams = ContiguousParameters;

}  // namespace speedtorch
