/// The states of ContiguousOptimizer: one set of buffers per bucket, laid out like its parameters. Internal.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "speedtorch/contiguous/flat_buffers.h"
#include "speedtorch/contiguous/options.h"
#include "speedtorch/contiguous/parameters.h"
#include "speedtorch/kernels/steps/flat_step.h"
#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch {

class OptimizerState {
 public:
  OptimizerState(std::vector<ParameterGroup> groups, const UpdateOptions& defaults,
                 const OptimizerOptions& more);

  bool step(const StepOptions& asked);
  void rebuild();
  void set_options(std::size_t group, const UpdateOptions& given);
  [[nodiscard]] std::vector<ParameterState> state() const;
  void set_state(const std::vector<ParameterState>& given);

  std::vector<UpdateOptions> options;  // one per group
  ContiguousParameters parameters;
  std::vector<std::string> names;  // of the states
  double norm = std::numeric_limits<double>::quiet_NaN();

 private:
  /// The states of one bucket.
  struct Bucket {
    at::Tensor master;                ///< float32; defined for half precision only
    std::vector<at::Tensor> tensors;  ///< each of the bucket's size; float32 for half precision
    std::variant<FlatPlan<float>, FlatPlan<double>> plan;
    std::uint32_t version = 0;  ///< of the bucket's data, when the master was last equal to it
  };
  struct Count {
    std::int64_t steps = 0;
    std::uint32_t version = 0;  ///< of the parameter, when its master was last equal to it
    bool stepped = false;       ///< by the current step
  };

  void make_buckets();
  [[nodiscard]] Bucket new_bucket(std::size_t bucket) const;
  void make_updates();
  [[nodiscard]] bool skips_step(const StepOptions& asked, kernels::GradientChange& change);
  [[nodiscard]] double gradient_norm(const kernels::GradientChange& change);
  void refresh_masters();
  void step_buckets(const kernels::GradientChange& change, bool zero);
  template <class T>
  void plan_runs(std::size_t bucket, FlatPlan<T>& plan);
  void count_step();
  [[nodiscard]] at::Tensor view_of(const at::Tensor& buffer, std::size_t place) const;
  void reset_state(std::size_t place);
  void load_state(const ParameterState& given, std::size_t place);
  void check_state(const ParameterState& given, std::size_t place) const;

  Unused unused_;
  std::vector<Bucket> buckets_;
  std::vector<Count> counts_;          // one per place
  std::vector<std::size_t> first_of_;  // the first place of each bucket, and the number of places
  SumScratch scratch_;
  bool keeps_zero_ = true;        ///< a step with these options leaves the padding at zero
  bool padding_has_nan_ = false;  ///< of the states
};

}  // namespace speedtorch
