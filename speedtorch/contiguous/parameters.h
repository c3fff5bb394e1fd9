/// Puts all parameters of a model into one buffer and their gradients into another; both are seen as views.
/// Does what contiguous_pytorch_params does for Python. docs/contiguous.md lists the pitfalls and the names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "speedtorch/contiguous/parameter_group.h"
#include "speedtorch/placement.h"

namespace speedtorch {

class AttachedViews;

/// How to treat a gradient that is not the attached view: none after zero_grad() with its default
/// set_to_none, or another tensor that backward then created.
enum class DetachedGradient {
  reattach,  ///< copies its values into the buffer and attaches the view again
  refuse,    ///< throws BufferError
};

struct ContiguousOptions {
  /// Placement of host buffers of at least 2 MiB: `hugepage`, `pageable`, or `libtorch`. Smaller ones are
  /// `pageable`, unless `libtorch` is given. GPU buffers are always LibTorch's.
  Placement placement = Placement::hugepage;
  DetachedGradient detached_gradient = DetachedGradient::reattach;
};

/// Lays parameters out in one buffer per (dtype, device), in the order given, group after group. Each view
/// begins at a multiple of 256 bytes; the padding is kept at zero.
///
/// - A parameter that is given twice is laid out once. Two tensors that share memory are refused if one of
///   them is trained, because they would no longer be tied.
/// - Frozen parameters (no gradient required) stay where they are and are never written.
/// - Strides are kept (channels_last, transposed). Parameters with gaps become dense. Scalars, empty tensors
///   and an empty list are valid.
/// - Existing gradients keep their values.
///
/// The parameters remain the model's own tensors; only the location of their data changes. The checks detect
/// whatever moves the data away (`module->to()`, torch::load(), set_data()), and rebuild() repairs it. Each
/// gradient has its own version counter, which shows whether it was written.
///
/// Not thread-safe.
class ContiguousParameters {
 public:
  /// A buffer of one dtype and device. `data` is a leaf that requires a gradient, and its gradient is
  /// `gradient`: pass it to an optimizer of LibTorch or to a collective operation.
  struct Bucket {
    at::Tensor data;      ///< [elements], padding included
    at::Tensor gradient;  ///< [elements], padding included
  };
  /// The location of a parameter: elements [begin, begin + count) of a bucket.
  struct Place {
    std::size_t parameter;  ///< its number in original()
    std::size_t group;
    std::size_t bucket;
    std::int64_t begin;
    std::int64_t count;
  };

  /// @throws BufferError for a parameter that is no leaf, is not strided, may overlap itself or another, or
  /// is not floating point; what `allocate` throws (speedtorch/memory/memory.h).
  explicit ContiguousParameters(std::vector<at::Tensor> parameters, ContiguousOptions options = {});
  explicit ContiguousParameters(std::vector<ParameterGroup> groups, ContiguousOptions options = {});

  ~ContiguousParameters();
  ContiguousParameters(ContiguousParameters&&) noexcept;
  ContiguousParameters& operator=(ContiguousParameters&&) noexcept;

  /// The buffers as leafs, one per bucket: the parameters for an elementwise optimizer.
  [[nodiscard]] std::vector<at::Tensor> contiguous() const;
  /// The parameters in the order given, each once, frozen ones included.
  [[nodiscard]] const std::vector<at::Tensor>& original() const { return parameters_; }
  [[nodiscard]] auto begin() const { return parameters_.begin(); }
  [[nodiscard]] auto end() const { return parameters_.end(); }
  [[nodiscard]] std::size_t size() const { return parameters_.size(); }

  [[nodiscard]] std::span<const Bucket> buckets() const { return buckets_; }
  /// One place per trained parameter, in the order of the buffers.
  [[nodiscard]] std::span<const Place> places() const { return places_; }
  /// "layer1.weight", or "parameter 3" if no names were given.
  [[nodiscard]] std::string name_of(std::size_t parameter) const;
  [[nodiscard]] std::size_t group_of(std::size_t parameter) const { return groups_[parameter]; }
  [[nodiscard]] std::size_t groups() const { return group_count_; }
  [[nodiscard]] const ContiguousOptions& options() const { return options_; }

  /// True if every parameter and every gradient lies where it was put. Never throws.
  [[nodiscard]] bool buffer_is_valid() const noexcept;
  /// @throws BufferError naming the first one that does not, and what moved it
  void assert_buffer_is_valid() const;

  /// Call it before a step of any optimizer. Checks as assert_buffer_is_valid() does, but treats detached
  /// gradients as options().detached_gradient says; a gradient that is none becomes its view again, with
  /// zeros. @throws BufferError if a parameter was moved, or if a gradient is detached and those are refused
  void prepare_step();
  /// Zeros the gradients, and attaches them again if necessary.
  void zero_grad();
  /// Lays the parameters out again, with their current device and dtype, in new buffers. Their gradients keep
  /// their values and whether they count as used. Strong exception guarantee.
  void rebuild();

  /// Splits flat tensors, one per bucket and of its shape, into one tensor per parameter of original(), with
  /// its shape and strides: views. Entries of frozen parameters are undefined. For the states that a stock
  /// optimizer keeps for contiguous(). @throws ShapeError for tensors of another shape
  [[nodiscard]] std::vector<at::Tensor> split(const std::vector<at::Tensor>& flat) const;
  /// The reverse of split(): copies, of the dtype of the first part of each bucket, with zeros in the
  /// padding. Ignores the parts of frozen parameters. @throws ShapeError naming the parameter
  [[nodiscard]] std::vector<at::Tensor> join(const std::vector<at::Tensor>& parts) const;

  /// Scales all gradients to a joint 2-norm of at most `max_norm`, as torch's clip_grad_norm_ does. Returns
  /// the norm before scaling. The sum is computed in double precision and does not depend on the number of
  /// threads. ContiguousOptimizer::step() does the same without a separate pass.
  double clip_grad_norm(double max_norm);
  /// Clamps each element of the gradients to [-max_value, max_value].
  void clip_grad_value(double max_value);

  /// True if the gradient at this place was written since zero_grad() or a step last zeroed it. A tensor
  /// operation on the whole buffer counts for every place. @param place index into places()
  [[nodiscard]] bool used(std::size_t place) const;
  /// Marks all gradients as used, after a write through raw pointers such as MPI's. Call prepare_step()
  /// before such a write, so that detached gradients are in the buffer. @throws BufferError naming a gradient
  /// that is not in the buffer, because the write missed it
  void gradients_written();
  /// Marks all gradients as unused, after raw pointers zeroed them.
  void gradients_used();

 private:
  friend class OptimizerState;

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
  std::unique_ptr<AttachedViews> views_;
  bool all_used_ = false;
};

/// SpeedTorch's name for it.
using ContiguousParams = ContiguousParameters;

}  // namespace speedtorch
