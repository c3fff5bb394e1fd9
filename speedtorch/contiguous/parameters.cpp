#include "speedtorch/contiguous/parameters.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <sstream>
#include <utility>

#include "speedtorch/contiguous/flat_buffers.h"
#include "speedtorch/contiguous/parameter_list.h"
#include "speedtorch/contiguous/views.h"
#include "speedtorch/kernels/steps/flat_step.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

/// The tensor's strides if it is dense, else dense strides in the same order.
std::vector<std::int64_t> dense_strides(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return tensor.strides().vec();
  return at::infer_dense_strides(tensor.sizes(), tensor.strides());
}

using Place = ContiguousParameters::Place;

/// The buckets, in the order of their first parameters, and the places in them.
struct Layout {
  struct Bucket {
    at::ScalarType dtype;
    at::Device device;
    std::int64_t elements = 0;
  };
  std::vector<Bucket> buckets;
  std::vector<Place> places;

  Layout(const std::vector<at::Tensor>& parameters, const std::vector<std::size_t>& groups) {
    std::vector<std::vector<Place>> of_bucket;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const auto& tensor = parameters[k];
      if (!tensor.requires_grad()) continue;
      const std::size_t at = bucket_of(tensor);
      of_bucket.resize(buckets.size());
      of_bucket[at].push_back({k, groups[k], at, buckets[at].elements, tensor.numel()});
      buckets[at].elements += padded(tensor.numel(), tensor.scalar_type());
    }
    for (const auto& one : of_bucket) places.insert(places.end(), one.begin(), one.end());
  }

 private:
  std::size_t bucket_of(const at::Tensor& tensor) {
    const auto same = [&](const Bucket& bucket) {
      return bucket.dtype == tensor.scalar_type() && bucket.device == tensor.device();
    };
    const auto found = std::find_if(buckets.begin(), buckets.end(), same);
    if (found != buckets.end()) return static_cast<std::size_t>(found - buckets.begin());
    buckets.push_back({tensor.scalar_type(), tensor.device()});
    return buckets.size() - 1;
  }
};

/// The gradient as a dense tensor; undefined if there is none.
at::Tensor dense_gradient(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined() || gradient.layout() == at::kStrided) return gradient;
  return gradient.to_dense();
}

}  // namespace

ContiguousParameters::ContiguousParameters(std::vector<at::Tensor> parameters, ContiguousOptions options)
    : ContiguousParameters(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, options) {}

ContiguousParameters::ContiguousParameters(std::vector<ParameterGroup> groups, ContiguousOptions options)
    : group_count_(groups.size()), options_(options), views_(std::make_unique<AttachedViews>()) {
  ParameterList list(std::move(groups));
  parameters_ = std::move(list.parameters);
  names_ = std::move(list.names);
  groups_ = std::move(list.groups);
  lay_out();
}

ContiguousParameters::~ContiguousParameters() = default;
ContiguousParameters::ContiguousParameters(ContiguousParameters&&) noexcept = default;
ContiguousParameters& ContiguousParameters::operator=(ContiguousParameters&&) noexcept = default;

/// One value per parameter: true if it has a gradient that counts as used.
std::vector<bool> ContiguousParameters::written() const {
  std::vector<bool> all;
  for (const auto& parameter : parameters_) all.push_back(parameter.grad().defined());
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto* const gradient = parameters_[places_[k].parameter].grad().unsafeGetTensorImpl();
    if (gradient == views_->entries[k].gradient.unsafeGetTensorImpl() && !used(k))
      all[places_[k].parameter] = false;
  }
  return all;
}

void ContiguousParameters::lay_out() {
  const at::NoGradGuard no_grad;
  const auto used = written();
  Layout layout(parameters_, groups_);
  std::vector<Bucket> buckets;
  for (const auto& [dtype, device, elements] : layout.buckets) {
    buckets.push_back({new_buffer(elements, dtype, device, options_.placement),
                       new_buffer(elements, dtype, device, options_.placement)});
  }
  std::vector<AttachedViews::View> views;
  for (const auto& place : layout.places) {
    const auto& parameter = parameters_[place.parameter];
    const auto& gradient = buckets[place.bucket].gradient;
    views.push_back({place_in(gradient, place.begin, parameter.sizes(), dense_strides(parameter)),
                     parameter.unsafeGetTensorImpl(), place.bucket, place.begin});
    if (const auto old = dense_gradient(parameter); old.defined()) views.back().gradient.copy_(old);
  }
  // From here on nothing fails. Moves one parameter at a time, so that the memory of each is free before the
  // next is taken.
  for (std::size_t k = 0; k < views.size(); ++k) {
    const auto& place = layout.places[k];
    const auto& gradient = views[k].gradient;
    at::Tensor parameter = parameters_[place.parameter];
    const auto data = place_in(buckets[place.bucket].data, place.begin, gradient.sizes(), gradient.strides());
    data.copy_(parameter);
    parameter.set_data(data);
    parameter.mutable_grad() = gradient;
    views[k].version = version_of(gradient) - (used[place.parameter] ? 1 : 0);
  }
  for (auto& bucket : buckets) {
    bucket.data.set_requires_grad(true);
    bucket.data.mutable_grad() = bucket.gradient;
  }
  buckets_ = std::move(buckets);
  places_ = std::move(layout.places);
  views_->entries = std::move(views);
  reset_buffer_versions();  // used() was evaluated above
}

void ContiguousParameters::rebuild() {
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    if (const auto why = layout_obstacle(parameters_[k]); !why.empty())
      throw BufferError(names_[k] + " " + why);
  }
  lay_out();
}

std::vector<at::Tensor> ContiguousParameters::contiguous() const {
  std::vector<at::Tensor> buffers;
  for (const auto& bucket : buckets_) buffers.push_back(bucket.data);
  return buffers;
}

std::string ContiguousParameters::name_of(std::size_t parameter) const { return names_.at(parameter); }

/// False if a frozen parameter requires a gradient now: it has no place.
bool ContiguousParameters::frozen_unchanged() const {
  if (places_.size() == parameters_.size()) return true;
  const auto trained = std::count_if(parameters_.begin(), parameters_.end(),
                                     [](const at::Tensor& tensor) { return tensor.requires_grad(); });
  return static_cast<std::size_t>(trained) == places_.size();
}

/// True if every parameter and gradient lies where it was put. Touches cold cache lines.
bool ContiguousParameters::is_intact() const {
  std::atomic<bool> all = true;
  for_each_tensor(places_.size(), [&](std::size_t k) {
    views_->prefetch(k);
    const auto& view = views_->entries[k];
    const auto& bucket = buckets_[view.bucket];
    if (!AttachedViews::data_in_place(view, bucket.data) ||
        !AttachedViews::gradient_in_place(view, bucket.gradient))
      all.store(false, std::memory_order_relaxed);
  });
  return all.load(std::memory_order_relaxed);
}

bool ContiguousParameters::buffer_is_valid() const noexcept {
  try {
    return frozen_unchanged() &&
           std::all_of(buckets_.begin(), buckets_.end(),
                       [](const Bucket& bucket) {
                         return bucket.data.grad().unsafeGetTensorImpl() ==
                                bucket.gradient.unsafeGetTensorImpl();
                       }) &&
           is_intact();
  } catch (...) {
    return false;
  }
}

void ContiguousParameters::assert_buffer_is_valid() const {
  if (buffer_is_valid()) return;
  refuse_moved_data();
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto& place = places_[k];
    if (!AttachedViews::gradient_in_place(views_->entries[k], buckets_[place.bucket].gradient))
      refuse_gradient(place.parameter);
  }
  refuse_buffer_gradient();
}

void ContiguousParameters::refuse_gradient(std::size_t parameter) const {
  if (!parameters_[parameter].grad().defined()) {
    throw BufferError("the gradient of " + names_[parameter] +
                      " is none: zero_grad() sets gradients to none by default. Call zero_grad() of the "
                      "contiguous parameters or their optimizer, or torch's with set_to_none = false");
  }
  throw BufferError(
      "the gradient of " + names_[parameter] +
      " is not the one in the buffer: backward created a new one after it was set to none, or another "
      "tensor was assigned. Change gradients in place, and call zero_grad() of the contiguous "
      "parameters or their optimizer");
}

void ContiguousParameters::refuse_buffer_gradient() const {
  throw BufferError(
      "the gradient of a buffer was set to none or replaced: the zero_grad() of an optimizer on contiguous() "
      "does so, and leaves the gradients of the parameters as they were. Call zero_grad() of the contiguous "
      "parameters");
}

void ContiguousParameters::refuse_moved_data() const {
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto& [number, group, bucket, begin, count] = places_[k];
    const auto& parameter = parameters_[number];
    if (AttachedViews::data_in_place(views_->entries[k], buckets_[bucket].data)) continue;
    const auto& was = views_->entries[k].gradient;
    std::ostringstream text;
    text << names_[number];
    if (!parameter.requires_grad())
      text << " was frozen (requires_grad is false)";
    else if (parameter.scalar_type() != was.scalar_type())
      text << " was cast from " << was.scalar_type() << " to " << parameter.scalar_type();
    else if (parameter.device() != was.device())
      text << " was moved from " << was.device() << " to " << parameter.device();
    else if (parameter.sizes() != was.sizes() || parameter.strides() != was.strides())
      text << " was " << was.sizes() << " with strides " << was.strides() << " and is " << parameter.sizes()
           << " with strides " << parameter.strides();
    else
      text << " has its data elsewhere: an assignment to .data or a load moved it";
    throw BufferError(text.str() + "; rebuild() takes the parameters as they are now");
  }
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    if (frozen_unchanged()) break;
    const bool placed =
        std::any_of(places_.begin(), places_.end(), [&](const Place& place) { return place.parameter == k; });
    if (!placed && parameters_[k].requires_grad())
      throw BufferError(names_[k] + " was frozen and requires a gradient now; rebuild() takes it in");
  }
}

void ContiguousParameters::prepare_step() {
  if (buffer_is_valid()) return;
  if (!frozen_unchanged()) refuse_moved_data();
  for (const auto& bucket : buckets_) {
    if (bucket.data.grad().unsafeGetTensorImpl() != bucket.gradient.unsafeGetTensorImpl())
      refuse_buffer_gradient();
  }
  bool detached = false;
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto& view = views_->entries[k];
    const auto& bucket = buckets_[view.bucket];
    if (!AttachedViews::data_in_place(view, bucket.data)) refuse_moved_data();
    if (AttachedViews::gradient_in_place(view, bucket.gradient)) continue;
    if (options_.detached_gradient == DetachedGradient::refuse) refuse_gradient(places_[k].parameter);
    if (!std::exchange(detached, true)) record_use_per_gradient();
    reattach(k);
  }
}

/// Transfers the use that is recorded per buffer to each gradient. A gradient that gets detached would lose
/// it.
void ContiguousParameters::record_use_per_gradient() {
  for (std::size_t k = 0; k < places_.size(); ++k) {
    auto& view = views_->entries[k];
    view.version = version_of(view.gradient) - (used(k) ? 1 : 0);
  }
  reset_buffer_versions();
}

void ContiguousParameters::reset_buffer_versions() {
  all_used_ = false;
  views_->buffer_versions.resize(buckets_.size());
  for (std::size_t k = 0; k < buckets_.size(); ++k)
    views_->buffer_versions[k] = version_of(buckets_[k].gradient);
}

void ContiguousParameters::reattach(std::size_t k) {
  const at::NoGradGuard no_grad;
  const auto& place = places_[k];
  auto& view = views_->entries[k];
  at::Tensor parameter = parameters_[place.parameter];
  if (!lies_in(*view.gradient.unsafeGetTensorImpl(), buckets_[place.bucket].gradient,
               place.begin)) {  // after set_data()
    view.gradient =
        place_in(buckets_[place.bucket].gradient, place.begin, parameter.sizes(), parameter.strides());
  }
  if (const auto found = dense_gradient(parameter); found.defined()) {
    view.gradient.copy_(found);
  } else {
    view.gradient.zero_();
    view.version = version_of(view.gradient);
  }
  parameter.mutable_grad() = view.gradient;
}

void ContiguousParameters::zero_grad() {
  for (auto& bucket : buckets_) {
    bucket.gradient.zero_();
    bucket.data.mutable_grad() = bucket.gradient;
  }
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto& place = places_[k];
    if (AttachedViews::gradient_in_place(views_->entries[k], buckets_[place.bucket].gradient)) continue;
    parameters_[place.parameter].mutable_grad() = at::Tensor();
    reattach(k);
  }
  gradients_used();
}

bool ContiguousParameters::used(std::size_t place) const {
  const auto& view = views_->entries[place];
  const auto bucket = places_[place].bucket;
  return all_used_ || version_of(view.gradient) != view.version ||
         version_of(buckets_[bucket].gradient) != views_->buffer_versions[bucket];
}

void ContiguousParameters::gradients_written() {
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto& place = places_[k];
    if (AttachedViews::gradient_in_place(views_->entries[k], buckets_[place.bucket].gradient)) continue;
    throw BufferError(
        "the gradient of " + names_[place.parameter] +
        " was not in the buffer when the buffer was written: it was set to none, or backward created a "
        "new one. Call prepare_step() first, which copies it into the buffer");
  }
  all_used_ = true;
}

void ContiguousParameters::gradients_used() {
  for (auto& view : views_->entries) view.version = version_of(view.gradient);
  reset_buffer_versions();
}

/// Runs an operation on each bucket's gradients that does not count as a use.
template <class Operation>
void ContiguousParameters::on_gradients(const Operation& operation) {
  for (std::size_t k = 0; k < buckets_.size(); ++k) {
    auto& known = views_->buffer_versions[k];
    const auto since = version_of(buckets_[k].gradient) - known;
    operation(buckets_[k].gradient);
    known = version_of(buckets_[k].gradient) - since;
  }
}

double ContiguousParameters::clip_grad_norm(double max_norm) {
  check_limit("max_norm", max_norm);
  prepare_step();
  double sum = 0;
  for (const auto& bucket : buckets_) sum += square_sum(bucket.gradient, {}, views_->scratch);
  const double norm = std::sqrt(sum);
  const double coefficient = kernels::clip_coefficient(norm, max_norm);
  if (coefficient == 1) return norm;
  on_gradients([&](at::Tensor& gradient) { gradient.mul_(coefficient); });
  zero_padding(&Bucket::gradient);
  return norm;
}

void ContiguousParameters::clip_grad_value(double max_value) {
  check_limit("max_value", max_value);
  prepare_step();
  on_gradients([&](at::Tensor& gradient) { gradient.clamp_(-max_value, max_value); });
}

std::vector<at::Tensor> ContiguousParameters::split(const std::vector<at::Tensor>& flat) const {
  if (flat.size() != buckets_.size())
    throw ShapeError(std::to_string(flat.size()) + " flat tensors were given; there are " +
                     std::to_string(buckets_.size()) + " buffers");
  for (std::size_t b = 0; b < flat.size(); ++b) {
    if (is_lazy(flat[b])) refuse_lazy(flat[b], "flat tensor " + std::to_string(b));
    const auto wanted = buckets_[b].data.sizes();
    if (flat[b].sizes() == wanted && flat[b].is_contiguous()) continue;
    std::ostringstream text;
    text << "flat tensor " << b << " is " << flat[b].sizes() << (flat[b].is_contiguous() ? "" : ", with gaps")
         << "; the buffer is " << wanted;
    throw ShapeError(text.str());
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts(parameters_.size());
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto& place = places_[k];
    const auto& like = views_->entries[k].gradient;
    parts[place.parameter] = place_in(flat[place.bucket], place.begin, like.sizes(), like.strides());
  }
  return parts;
}

std::vector<at::Tensor> ContiguousParameters::join(const std::vector<at::Tensor>& parts) const {
  if (parts.size() != parameters_.size())
    throw ShapeError(std::to_string(parts.size()) + " tensors were given; there are " +
                     std::to_string(parameters_.size()) + " parameters");
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto& place = places_[k];
    const auto& part = parts[place.parameter];
    const auto& like = views_->entries[k].gradient;
    if (!part.defined() || part.sizes() != like.sizes()) {
      std::ostringstream text;
      text << "what was given for " << names_[place.parameter] << " is ";
      (part.defined() ? text << part.sizes() : text << "not defined")
          << "; the parameter is " << like.sizes();
      throw ShapeError(text.str());
    }
    if (place.bucket == flat.size()) {
      const auto& data = buckets_[place.bucket].data;
      flat.push_back(at::zeros(data.sizes(), part.options().device(data.device()).requires_grad(false)));
    }
    place_in(flat[place.bucket], place.begin, like.sizes(), like.strides()).copy_(part);
  }
  return flat;
}

void ContiguousParameters::zero_padding(at::Tensor Bucket::*buffer) {
  const at::NoGradGuard no_grad;
  for (const auto& place : places_) {
    const std::int64_t end = place.begin + place.count;
    const auto& of_bucket = buckets_[place.bucket].*buffer;
    const std::int64_t rest = padded(place.count, of_bucket.scalar_type()) - place.count;
    if (rest > 0)
      place_in(of_bucket, end, {rest}, {1}).zero_();  // does not count as a use: the buffer's version stays
  }
}

}  // namespace speedtorch
