// A step checks the parameters (ContiguousParameters) and merges neighbours that take the same step number of
// the same update into one run. Then the kernel processes the runs of each bucket in one pass.

#include "speedtorch/contiguous/state.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "speedtorch/contiguous/flat_buffers.h"
#include "speedtorch/kernels/steps/step_math.h"
#include "speedtorch/optim/state.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr const char* kMaster = "master";

/// @throws OptionError unless all groups have the same optimizer with the same states
void check_same_optimizer(const UpdateOptions& options, const UpdateOptions& first, std::size_t group) {
  if (std::holds_alternative<SparseAdamOptions>(options)) {
    throw OptionError(
        "SparseAdam updates the rows that an index names; whole parameters take Adam, and a table of rows "
        "its own SparseAdam outside of the buffer");
  }
  if (options.index() == first.index() && state_names(options) == state_names(first)) return;
  throw OptionError("group " + std::to_string(group) +
                    " has another optimizer than the first group, or other states (amsgrad, momentum, "
                    "centered); give it its own optimizer");
}

std::vector<UpdateOptions> options_of(const std::vector<ParameterGroup>& groups,
                                      const UpdateOptions& defaults) {
  std::vector<UpdateOptions> options;
  for (const auto& group : groups) options.push_back(group.options.value_or(defaults));
  if (options.empty()) options.push_back(defaults);
  for (std::size_t k = 0; k < options.size(); ++k) check_same_optimizer(options[k], options[0], k);
  return options;
}

/// True if a step with zeros leaves a parameter of zero at zero. False if it computes 0 / 0.
bool keeps_zero(const UpdateOptions& options) {
  return std::visit(
      [](const auto& update) {
        double param = 0;
        double state[kernels::kMostStates + 1] = {};
        update.template apply<kernels::StepMath<false>>(update.at(1), param, 0.0, state);
        return param == 0;
      },
      kernels::make_update<double>(options));
}

}  // namespace

OptimizerState::OptimizerState(std::vector<ParameterGroup> groups, const UpdateOptions& defaults,
                               const OptimizerOptions& more)
    : options(options_of(groups, defaults)),
      parameters(std::move(groups), more.buffers),
      names(state_names(options[0])),
      unused_(more.unused) {
  make_buckets();
}

void OptimizerState::make_buckets() {
  const auto places = parameters.places();
  first_of_.clear();
  for (std::size_t k = 0; k < places.size(); ++k) {
    if (k == 0 || places[k].bucket != places[k - 1].bucket) first_of_.push_back(k);
  }
  first_of_.push_back(places.size());
  std::vector<Bucket> buckets;
  for (std::size_t k = 0; k < parameters.buckets().size(); ++k) buckets.push_back(new_bucket(k));
  buckets_ = std::move(buckets);
  padding_has_nan_ = false;
  counts_.assign(places.size(), Count());
  make_updates();
  for (std::size_t k = 0; k < places.size(); ++k) reset_state(k);
}

OptimizerState::Bucket OptimizerState::new_bucket(std::size_t k) const {
  const auto& [data, gradient] = parameters.buckets()[k];
  const auto dtype = update_dtype(data.scalar_type());
  Bucket bucket;
  const auto buffer = [&] {
    return new_buffer(data.numel(), dtype, data.device(), parameters.options().placement);
  };
  if (is_half(data.scalar_type())) bucket.master = buffer();
  for (std::size_t s = 0; s < names.size(); ++s) bucket.tensors.push_back(buffer());
  const auto plan_of = [&](auto zero) {
    using T = decltype(zero);
    FlatPlan<T> plan{gradient_tables<T>(gradient)};
    plan.tables.param = static_cast<T*>((bucket.master.defined() ? bucket.master : data).data_ptr());
    if (bucket.master.defined()) plan.tables.half_param = static_cast<std::uint16_t*>(data.data_ptr());
    for (std::size_t s = 0; s < bucket.tensors.size(); ++s)
      plan.tables.states[s] = static_cast<T*>(bucket.tensors[s].data_ptr());
    plan.runs.reserve(first_of_[k + 1] - first_of_[k]);
    return plan;
  };
  if (dtype == at::kDouble)
    bucket.plan = plan_of(0.0);
  else
    bucket.plan = plan_of(0.0F);
  return bucket;
}

void OptimizerState::make_updates() {
  keeps_zero_ = std::all_of(options.begin(), options.end(), keeps_zero);
  for (auto& bucket : buckets_) {
    const auto fill = [&]<class T>(FlatPlan<T>& plan) {
      plan.updates.clear();
      for (const auto& of_group : options) plan.updates.push_back(kernels::make_update<T>(of_group));
    };
    std::visit(fill, bucket.plan);
  }
}

void OptimizerState::set_options(std::size_t group, const UpdateOptions& given) {
  check_options(given);
  check_same_optimizer(given, options[0], group);
  if (group >= options.size()) {
    throw OptionError("there is no group " + std::to_string(group) + "; there are " +
                      std::to_string(options.size()));
  }
  options[group] = given;
  make_updates();
}

bool OptimizerState::step(const StepOptions& asked) {
  if (asked.max_value) check_limit("max_value", *asked.max_value);
  if (asked.max_norm) check_limit("max_norm", *asked.max_norm);
  if (asked.found_inf.defined() && asked.found_inf.numel() != 1)
    throw ShapeError("found_inf is " + shape_of(asked.found_inf) + "; one number is needed");
  parameters.prepare_step();
  kernels::GradientChange change{asked.inv_scale};
  if (asked.max_value) change.max_value = *asked.max_value;
  const bool stepped = !skips_step(asked, change);
  if (stepped) {
    refresh_masters();
    step_buckets(change, asked.zero_grad);
    if (!std::isfinite(change.inv_scale * change.coefficient)) padding_has_nan_ = true;
    if (padding_has_nan_ || !keeps_zero_) parameters.zero_padding(&ContiguousParameters::Bucket::data);
    count_step();
  }
  if (asked.zero_grad && stepped)
    parameters.gradients_used();  // the pass zeroed them
  else if (asked.zero_grad)
    parameters.zero_grad();
  return stepped;
}

/// True if the step is to be skipped. Also sets the factor that clips the norm.
bool OptimizerState::skips_step(const StepOptions& asked, kernels::GradientChange& change) {
  if (asked.found_inf.defined() && asked.found_inf.item<float>() != 0) return true;
  if (!asked.max_norm && !asked.skip_non_finite) return false;
  norm = gradient_norm(change);
  if (asked.max_norm) change.coefficient = kernels::clip_coefficient(norm, *asked.max_norm);
  if (!asked.skip_non_finite) return false;
  if (!std::isfinite(norm)) return true;
  // Clamping makes infinite gradients finite, so the unclamped norm is needed.
  return asked.max_value && !std::isfinite(gradient_norm({asked.inv_scale}));
}

double OptimizerState::gradient_norm(const kernels::GradientChange& change) {
  double sum = 0;
  for (const auto& bucket : parameters.buckets()) sum += square_sum(bucket.gradient, change, scratch_);
  return std::sqrt(sum);
}

/// Copies parameters of half precision into their masters if they were written since the last step.
void OptimizerState::refresh_masters() {
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    auto& bucket = buckets_[b];
    if (!bucket.master.defined()) continue;
    const auto& data = parameters.buckets()[b].data;
    const bool whole = version_of(data) != bucket.version;
    for (std::size_t k = first_of_[b]; k < first_of_[b + 1]; ++k) {
      const auto& parameter = parameters.original()[parameters.places()[k].parameter];
      if (whole || version_of(parameter) != counts_[k].version) view_of(bucket.master, k).copy_(parameter);
    }
    bucket.version = version_of(data);
  }
}

void OptimizerState::step_buckets(const kernels::GradientChange& change, bool zero) {
  for (std::size_t k = 0; k < buckets_.size(); ++k) {
    const auto device = parameters.buckets()[k].data.device();
    const auto run = [&]<class T>(FlatPlan<T>& plan) {
      plan_runs(k, plan);
      if (device.is_cpu())
        kernels::flat_step<T>(plan.tables, plan.runs, change, zero, parallel_for);
      else
        step_on_gpu(device, plan, change, zero);
    };
    std::visit(run, buckets_[k].plan);
  }
}

template <class T>
void OptimizerState::plan_runs(std::size_t bucket, FlatPlan<T>& plan) {
  const auto places = parameters.places();
  const auto unit = padding_unit(parameters.buckets()[bucket].data.scalar_type());
  plan.runs.clear();
  const std::size_t first = first_of_[bucket];
  for_each_tensor(first_of_[bucket + 1] - first, [&](std::size_t k) {
    counts_[first + k].stepped = unused_ == Unused::zero || parameters.used(first + k);
  });
  for (std::size_t k = first; k < first_of_[bucket + 1]; ++k) {
    auto& count = counts_[k];
    if (!count.stepped) continue;
    const auto& place = places[k];
    const auto* const update = &plan.updates[place.group];
    const std::int64_t end = place.begin + padded(place.count, unit);
    auto* const last = plan.runs.empty() ? nullptr : &plan.runs.back();
    if (last != nullptr && last->end == place.begin && last->step == count.steps + 1 &&
        last->update == update)
      last->end = end;
    else
      plan.runs.push_back({place.begin, end, count.steps + 1, update});
  }
}

void OptimizerState::count_step() {
  const auto places = parameters.places();
  const auto& all = parameters.original();
  for_each_tensor(counts_.size(), [&](std::size_t k) {
    auto& count = counts_[k];
    if (!count.stepped) return;
    ++count.steps;
    const auto& parameter = all[places[k].parameter];
    bump_version(parameter);
    count.version = version_of(parameter);
  });
  for (std::size_t k = 0; k < buckets_.size(); ++k) {
    bump_version(parameters.buckets()[k].data);
    buckets_[k].version = version_of(parameters.buckets()[k].data);
  }
}

/// The part of a state's buffer that belongs to a place, in the shape of its parameter.
at::Tensor OptimizerState::view_of(const at::Tensor& buffer, std::size_t k) const {
  const auto& place = parameters.places()[k];
  const auto& parameter = parameters.original()[place.parameter];
  return place_in(buffer, place.begin, parameter.sizes(), parameter.strides());
}

void OptimizerState::reset_state(std::size_t k) {
  const at::NoGradGuard no_grad;
  const auto& place = parameters.places()[k];
  auto& bucket = buckets_[place.bucket];
  const auto& parameter = parameters.original()[place.parameter];
  counts_[k] = {0, version_of(parameter)};
  bucket.version = version_of(parameters.buckets()[place.bucket].data);
  if (bucket.master.defined()) view_of(bucket.master, k).copy_(parameter);
  const auto begins = state_begins(options[place.group]);
  for (std::size_t s = 0; s < names.size(); ++s) view_of(bucket.tensors[s], k).fill_(begins[s].value);
}

std::vector<ParameterState> OptimizerState::state() const {
  std::vector<ParameterState> all(parameters.size());
  for (std::size_t k = 0; k < counts_.size(); ++k) {
    const auto& place = parameters.places()[k];
    const auto& bucket = buckets_[place.bucket];
    auto& one = all[place.parameter];
    one.steps = counts_[k].steps;
    for (std::size_t s = 0; s < names.size(); ++s)
      one.tensors.emplace_back(names[s], view_of(bucket.tensors[s], k).clone());
    if (bucket.master.defined()) one.tensors.emplace_back(kMaster, view_of(bucket.master, k).clone());
  }
  return all;
}

void OptimizerState::set_state(const std::vector<ParameterState>& given) {
  const at::NoGradGuard no_grad;
  if (given.size() != parameters.size()) {
    throw ShapeError("states of " + std::to_string(given.size()) + " parameters were given; there are " +
                     std::to_string(parameters.size()));
  }
  for (std::size_t k = 0; k < counts_.size(); ++k) check_state(given[parameters.places()[k].parameter], k);
  for (std::size_t k = 0; k < counts_.size(); ++k) load_state(given[parameters.places()[k].parameter], k);
}

void OptimizerState::check_state(const ParameterState& given, std::size_t k) const {
  const auto number = parameters.places()[k].parameter;
  const auto& parameter = parameters.original()[number];
  const auto name = parameters.name_of(number);
  if (given.steps < 0)
    throw OptionError(name + ": steps is " + std::to_string(given.steps) + "; 0 or more is needed");
  for (const auto& [state, tensor] : given.tensors) {
    if (tensor.sizes() == parameter.sizes()) continue;
    throw ShapeError("the state " + state + " of " + name + " is " + shape_of(tensor) + ", the parameter " +
                     shape_of(parameter));
  }
  const auto has = [&](const std::string& state) {
    return std::any_of(given.tensors.begin(), given.tensors.end(),
                       [&](const auto& one) { return one.first == state; });
  };
  const auto missing = std::find_if_not(names.begin(), names.end(), has);
  if (given.steps > 0 && missing != names.end())
    throw ShapeError("the state " + *missing + " of " + name + " is missing");
}

/// Skips a master whose rounding is not its parameter: the parameter was loaded, cast, or belongs to another
/// checkpoint. The next step would bring the old value back.
void OptimizerState::load_state(const ParameterState& given, std::size_t k) {
  reset_state(k);
  auto& bucket = buckets_[parameters.places()[k].bucket];
  const auto& parameter = parameters.original()[parameters.places()[k].parameter];
  counts_[k].steps = given.steps;
  for (const auto& [state, tensor] : given.tensors) {
    const auto known = std::find(names.begin(), names.end(), state);
    if (known != names.end())
      view_of(bucket.tensors[static_cast<std::size_t>(known - names.begin())], k).copy_(tensor);
    else if (state == kMaster && bucket.master.defined() &&
             tensor.to(parameter.device(), parameter.scalar_type()).equal(parameter))
      view_of(bucket.master, k).copy_(tensor);
  }
}

void OptimizerState::rebuild() {
  const auto kept = state();
  parameters.rebuild();
  make_buckets();
  set_state(kept);
}

}  // namespace speedtorch
