#include "benchmarks/infinitybatch/fixture.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>

#include "harness/numbers.h"
#include "speedtorch/cuda.h"
#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/out_of_memory.h"

namespace stbench {
namespace {

using Tensors = std::vector<at::Tensor>;

std::vector<std::int64_t> with_samples(std::int64_t count, const std::vector<std::int64_t>& sample) {
  std::vector<std::int64_t> shape{count};
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

Tensors first_values(const Net& net, at::Generator random) {
  Tensors values;
  for (const auto& parameter : net.parameters) {
    auto value = at::rand(parameter.shape, random, at::kFloat);
    const auto row = value.numel() / std::max<std::int64_t>(1, value.size(0));
    const double most = value.dim() > 1 ? 1 / std::sqrt(static_cast<double>(row)) : 0.1;
    values.push_back(value.mul_(2 * most).add_(parameter.around - most));
  }
  return values;
}

Tensors leafs_of(const Tensors& values, at::Device device, at::ScalarType dtype) {
  Tensors leafs;
  for (const auto& value : values)
    leafs.push_back(value.to(at::TensorOptions(device).dtype(dtype), false, /*copy=*/true).requires_grad_());
  return leafs;
}

/// False also if the library reports that it has nothing left to try.
template <class Work>
bool fits_in_memory(Work work) {
  try {
    return speedtorch::infinity::had_memory_for(work);
  } catch (const speedtorch::infinity::OutOfMemory&) {
    return false;
  }
}

at::Tensor exactly(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).to(at::kDouble); }

double squared(const at::Tensor& tensor) { return tensor.square().sum().item<double>(); }

/// The distance of all gradients from the exact ones, relative to the norm of the exact ones.
double difference(const Tensors& gradients, const Tensors& exact) {
  double apart = 0, norm = 0;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    apart += squared(exactly(gradients[k]).sub(exact[k]));
    norm += squared(exact[k]);
  }
  return std::sqrt(apart / norm);
}

/// The number of elements that are not the result of one SGD step.
std::int64_t not_stepped(const at::Tensor& before, const at::Tensor& parameter) {
  constexpr double rounding = 1e-6;
  const auto from = exactly(before), change = exactly(parameter.grad()).mul(TrainingFixture::rate);
  const auto apart = exactly(parameter).sub(from.sub(change)).abs();
  return apart.le(from.abs().add(change.abs()).mul(rounding)).logical_not().sum().item<std::int64_t>();
}

Tensors gradients_of(const Tensors& parameters) {
  Tensors gradients;
  for (const auto& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

}  // namespace

at::Tensor mean_loss(const at::Tensor& scores, const at::Tensor& classes) {
  return at::cross_entropy_loss(scores, classes);
}

double times_plain_of_single_sums(std::int64_t samples) {
  return 2 + std::sqrt(static_cast<double>(samples)) / 8;
}

std::optional<std::int64_t> asked_size(const reports::Identity& id) {
  const auto text = axis<std::string>(id, "micro_batch");
  if (text == "auto") return std::nullopt;
  return text == "fixed" ? std::max<std::int64_t>(1, id.rows / 2)
                         : harness::parse_count(text, "--micro-batch");
}

bool finds_size(const reports::Identity& id) { return !asked_size(id); }

TrainingFixture::TrainingFixture(const reports::Identity& cell, const StepTerms& terms)
    : id(cell), net(net_named(axis<std::string>(id, "model"))), device(id.device), cap(device) {
  auto random = at::detail::createCPUGenerator(terms.seed);
  initial = first_values(net, random);
  const auto count = std::max(id.rows, batches * id.batch);  // at least one batch that fits
  all.samples = at::randn(with_samples(count, net.sample), random, at::kFloat);
  all.classes = at::randint(net.classes, {count}, random, at::kLong);
  for (const auto& value : initial) held += static_cast<std::int64_t>(value.nbytes());
  const auto taken = taken_by_a_plain_batch_that_fits();
  room = taken + taken / 32;  // for states of random generators and losses
}

std::int64_t TrainingFixture::taken_by_a_plain_batch_that_fits() {
  const auto leafs = parameters();
  const Examples batch{all.samples.narrow(0, 0, id.rows).to(device),
                       all.classes.narrow(0, 0, id.rows).to(device)};
  cap.empty_cache();
  cap.hold(0);
  loss(leafs, batch).backward();
  speedtorch::synchronize_cuda(device);
  return cap.release();
}

reports::Columns TrainingFixture::columns() const {
  reports::Columns columns;
  for (const char* name : {"samples_per_s", "peak_bytes", "cap_bytes", "gradient_difference",
                           "plain_difference", "micro_batch_samples"})
    columns.emplace_back(name, std::monostate{});
  return columns;
}

Examples TrainingFixture::examples(int set, std::int64_t first, std::int64_t count) const {
  const auto at = set % batches * id.batch + first;
  return {all.samples.narrow(0, at, count), all.classes.narrow(0, at, count)};
}

at::Tensor TrainingFixture::loss(const Tensors& parameters, const Examples& of) const {
  return mean_loss(net.forward(parameters, of.samples), of.classes);
}

Tensors TrainingFixture::parameters() const { return leafs_of(initial, device, at::kFloat); }

const ExactGradients& TrainingFixture::exact(int set) {
  auto& found = exact_.at(static_cast<std::size_t>(set % batches));
  if (found) return *found;
  const auto exact = leafs_of(initial, at::kCPU, at::kDouble);
  for (std::int64_t first = 0; first < id.batch; first += id.rows) {
    const auto part = examples(set, first, std::min(id.rows, id.batch - first));
    const auto weight = static_cast<double>(part.classes.numel()) / static_cast<double>(id.batch);
    loss(exact, {part.samples.to(at::kDouble), part.classes}).mul(weight).backward();
  }
  const auto plain = parameters();
  const auto whole = examples(set, 0, id.batch);
  loss(plain, {whole.samples.to(device), whole.classes.to(device)}).backward();
  found = ExactGradients{gradients_of(exact), 0};
  found->plain_difference = difference(gradients_of(plain), found->of);
  return *found;
}

Trainer::Trainer(TrainingFixture& fixture)
    : fixture_(fixture),
      parameters_(fixture.parameters()),
      optimizer_(std::make_shared<torch::optim::SGD>(parameters_,
                                                     torch::optim::SGDOptions(TrainingFixture::rate))) {}

void Trainer::prepare(int /*set*/) {
  const at::NoGradGuard no_grad;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    parameters_[k].mutable_grad() = at::Tensor();
    parameters_[k].copy_(fixture_.initial[k]);
  }
}

void Trainer::step(int set) {
  fixture_.cap.hold(fixture_.room);
  struct Released {
    Trainer& of;
    ~Released() { of.taken_ = std::max(of.taken_, of.fixture_.cap.release()); }
  } const released{*this};
  gradients(set);
  update();
  speedtorch::synchronize_cuda(fixture_.device);
}

void Trainer::update() { optimizer_->step(); }

Examples Trainer::fetch(int set, std::int64_t first, std::int64_t count) const {
  const auto part = fixture_.examples(set, first, count);
  return {part.samples.to(fixture_.device), part.classes.to(fixture_.device)};
}

void Trainer::rehearse() {
  constexpr int most = 256;  // InfinityBatch's search for a size ends after 192 micro-batches at the latest
  for (int steps = 0; steps < most; ++steps) {
    prepare(0);
    fixture_.cap.empty_cache();
    const bool fits = fits_in_memory([&] { step(0); });
    if (fits && !still_searching()) break;
    if (fits || take_smaller()) continue;
    prepare(0);  // frees what a failed step left
    throw CannotRun(
        fmt::format("out of memory under the cap of {}, which is what a batch of {} takes; a batch of "
                    "any size goes through in micro-batches",
                    harness::human_bytes(fixture_.held + fixture_.room), fixture_.id.rows));
  }
  taken_ = 0;
}

harness::Check Trainer::check(int set) {
  const auto& exact = fixture_.exact(set);
  harness::Check check{fixture_.net.parameter_elements(), 0, {}};
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    if (!parameters_[k].grad().defined())
      return {check.rows, check.rows, fmt::format("parameter {} has no gradient", k)};
    const auto off = not_stepped(fixture_.initial[k], parameters_[k]);
    if (off > 0 && check.mismatches == 0)
      check.first = fmt::format("parameter {} is not what one step by its gradient makes of it", k);
    check.mismatches += off;
  }
  const auto found = difference(gradients_of(parameters_), exact.of);
  if (plain_difference_ == 0 || found * plain_difference_ > difference_ * exact.plain_difference)
    difference_ = found, plain_difference_ = exact.plain_difference;
  if (check.mismatches == 0 && !(found <= most_times_plain() * exact.plain_difference)) {
    check.mismatches = check.rows;
    check.first = fmt::format("gradients {:.2g} from those in float64, the plain batch's {:.2g}", found,
                              exact.plain_difference);
  }
  return check;
}

std::string Trainer::fingerprint(int /*set*/) {
  constexpr std::size_t enough = 256;
  const auto values = parameters_.front().detach().to(at::kCPU);
  return {static_cast<const char*>(values.const_data_ptr()), std::min(enough, values.nbytes())};
}

void Trainer::conclude(reports::Record& record) {
  reports::set(record.more, "samples_per_s", static_cast<double>(samples()) / *record.median_s);
  reports::set(record.more, "peak_bytes", fixture_.held + taken_);
  reports::set(record.more, "cap_bytes", fixture_.held + fixture_.room);
  reports::set(record.more, "gradient_difference", difference_);
  reports::set(record.more, "plain_difference", plain_difference_);
  reports::set(record.more, "micro_batch_samples", at_once());
}

std::int64_t Trainer::payload_bytes() const {
  return samples() * fixture_.net.sample_elements() * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t Trainer::index_bytes() const {
  return samples() * static_cast<std::int64_t>(sizeof(std::int64_t));
}

}  // namespace stbench
