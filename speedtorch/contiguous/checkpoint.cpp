// The states of a ContiguousOptimizer as the state_dict() of Python torch's optimizer of the same name: a
// pickle of plain dictionaries, lists, tuples and tensors in a zip file, which torch.load() reads as it does
// its own.

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <string_view>
#include <variant>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/contiguous/state.h"
#include "speedtorch/error.h"
#include "speedtorch/files/archive.h"
#include "speedtorch/optim/option_fields.h"
#include "speedtorch/system/new_file.h"

namespace speedtorch {
namespace {

using c10::IValue;
using Dict = c10::impl::GenericDict;

Dict words() { return Dict(c10::StringType::get(), c10::AnyType::get()); }

/// An option that torch keeps as one half of a pair.
struct Half {
  std::string_view option;
  const char* pair;
  std::size_t index;
};
constexpr std::array<Half, 6> kHalves{{{"beta1", "betas", 0},
                                       {"beta2", "betas", 1},
                                       {"etaminus", "etas", 0},
                                       {"etaplus", "etas", 1},
                                       {"step_size_min", "step_sizes", 0},
                                       {"step_size_max", "step_sizes", 1}}};

/// Null for an option that torch keeps by itself.
const Half* half_named(std::string_view option) {
  const auto* const found = std::ranges::find(kHalves, option, &Half::option);
  return found == kHalves.end() ? nullptr : found;
}

double number(const IValue& value) {
  return value.isTensor() ? value.toTensor().item<double>() : value.toScalar().toDouble();
}

/// Writes the options under Python's names.
template <class Options>
void write_options(Dict& group, const Options& options) {
  double first = 0;
  for_each_option(options, [&](const char* name, const auto& value) {
    const Half* const half = half_named(name);
    if (half == nullptr)
      group.insert(name, value);
    else if (half->index == 0)
      first = value;
    else
      group.insert(half->pair, c10::ivalue::Tuple::create({IValue(first), IValue(value)}));
  });
}

/// Reads them; an option that is missing keeps its value.
template <class Options>
void read_options(const Dict& group, Options& options) {
  for_each_option(options, [&]<class T>(const char* name, T& value) {
    const Half* const half = half_named(name);
    const char* const key = half == nullptr ? name : half->pair;
    if (!group.contains(key)) return;
    IValue found = group.at(key);
    if (half != nullptr)
      found = found.isTuple() ? IValue(found.toTupleRef().elements().at(half->index))
                              : IValue(found.toListRef().at(half->index));
    if constexpr (std::is_same_v<T, bool>)
      value = found.toBool();
    else
      value = number(found);
  });
}

/// The further entries of torch's groups.
void add_switches(Dict& group, const UpdateOptions& options) {
  group.insert("foreach", IValue());
  group.insert("differentiable", false);
  const bool fused =
      std::holds_alternative<AdamOptions>(options) || std::holds_alternative<AdamWOptions>(options) ||
      std::holds_alternative<SGDOptions>(options) || std::holds_alternative<AdagradOptions>(options);
  if (fused) group.insert("fused", IValue());
  if (!std::holds_alternative<SGDOptions>(options) && !std::holds_alternative<AdagradOptions>(options))
    group.insert("capturable", false);
  if (std::holds_alternative<AdamOptions>(options)) group.insert("decoupled_weight_decay", false);
  if (std::holds_alternative<AdamWOptions>(options)) group.insert("decoupled_weight_decay", true);
}

/// The two numbers that torch's ASGD keeps as tensors and that follow from the number of steps.
void add_asgd_numbers(Dict& state, const ASGDOptions& options, std::int64_t steps) {
  const auto n = static_cast<double>(steps);
  const double eta = options.lr / std::pow(1 + options.lambd * options.lr * n, options.alpha);
  state.insert("eta", at::full({}, eta, at::kFloat));
  state.insert("mu", at::full({}, 1 / std::max(1.0, n - options.t0), at::kFloat));
}

Dict python_state(const ParameterState& state, const UpdateOptions& options) {
  auto one = words();
  one.insert("step", at::full({}, static_cast<double>(state.steps), at::kFloat));
  for (const auto& [name, tensor] : state.tensors) one.insert(name, tensor);
  if (const auto* const asgd = std::get_if<ASGDOptions>(&options)) add_asgd_numbers(one, *asgd, state.steps);
  return one;
}

/// A zip file in memory. Unlike torch::pickle_save() without the tags that TorchScript puts on lists and
/// dictionaries, which Python's torch.load() takes for unsafe.
std::string zipped(const IValue& value) {
  std::string pickle;
  torch::jit::Pickler pickler([&](const char* bytes, std::size_t count) { pickle.append(bytes, count); },
                              nullptr, nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  std::string file;
  caffe2::serialize::PyTorchStreamWriter zip([&](const void* bytes, std::size_t count) {
    file.append(static_cast<const char*>(bytes), count);
    return count;
  });
  zip.writeRecord("data.pkl", pickle.data(), pickle.size());
  std::size_t number = 0;
  for (const auto& tensor : pickler.tensorData()) {
    const auto data = torch::jit::getWriteableTensorData(tensor);
    zip.writeRecord("data/" + std::to_string(number++), data.data(), data.sizeInBytes());
  }
  zip.writeEndOfFile();
  return file;
}

IValue unzipped(const std::string& path) {
  const auto why = "is no whole file that torch.save() or ContiguousOptimizer::save() wrote";
  return read_archive(path, why, [&] {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    return torch::jit::pickle_load(bytes);
  });
}

/// Adam and AdamW have the same states and the same names of options, and Python tells them by this switch.
/// @throws OptionError
void check_decay(const Dict& group, const UpdateOptions& options) {
  if (!group.contains("decoupled_weight_decay")) return;
  const bool adamw = std::holds_alternative<AdamWOptions>(options);
  if (!adamw && !std::holds_alternative<AdamOptions>(options)) return;
  if (group.at("decoupled_weight_decay").toBool() == adamw) return;
  const char* const found = adamw ? "Adam" : "AdamW";
  throw OptionError(std::string("the file is of ") + found + ", the optimizer is " +
                    (adamw ? "AdamW" : "Adam") + "; give it " + found + "Options");
}

/// A state_dict() that was read.
struct Read {
  std::vector<ParameterState> states;
  std::vector<UpdateOptions> options;  ///< of each group
};

ParameterState read_state(const Dict& state) {
  ParameterState one;
  bool counted = false;
  for (const auto& item : state) {
    const auto& name = item.key().toStringRef();
    if (name == "step") {
      one.steps =
          item.value().isTensor() ? item.value().toTensor().item<std::int64_t>() : item.value().toInt();
      counted = true;
    } else if (name != "eta" && name != "mu" && item.value().isTensor()) {
      one.tensors.emplace_back(name, item.value().toTensor());
    }
  }
  if (!counted && !one.tensors.empty())
    one.steps = 1;  // torch's SGD does not count: what matters is the first
  return one;
}

Read read(const IValue& file, const std::vector<UpdateOptions>& known,
          const std::vector<std::size_t>& sizes) {
  const auto whole = file.toGenericDict();
  const auto groups = whole.at("param_groups").toList();
  if (groups.size() != known.size()) {
    throw ShapeError("the file has " + std::to_string(groups.size()) + " parameter groups, the optimizer " +
                     std::to_string(known.size()));
  }
  Read read{{}, known};
  std::vector<std::int64_t> numbers;
  for (std::size_t g = 0; g < known.size(); ++g) {
    const auto group = groups.get(g).toGenericDict();
    const auto members = group.at("params").toList();
    if (members.size() != sizes[g]) {
      throw ShapeError("group " + std::to_string(g) + " has " + std::to_string(members.size()) +
                       " parameters in the file and " + std::to_string(sizes[g]) + " here");
    }
    for (const auto& number : members) numbers.push_back(IValue(number).toInt());
    check_decay(group, known[g]);
    std::visit([&](auto& options) { read_options(group, options); }, read.options[g]);
  }
  const auto states = whole.at("state").toGenericDict();
  for (const auto number : numbers)
    read.states.push_back(states.contains(number) ? read_state(states.at(number).toGenericDict())
                                                  : ParameterState{});
  return read;
}

}  // namespace

void ContiguousOptimizer::save(const std::string& file) const {
  const auto& all = parameters();
  Dict states(c10::IntType::get(), c10::AnyType::get());
  c10::impl::GenericList groups(c10::AnyType::get());
  const auto kept = state();
  std::int64_t number = 0;
  for (std::size_t g = 0; g < state_->options.size(); ++g) {
    auto group = words();
    std::visit([&](const auto& one) { write_options(group, one); }, options(g));
    add_switches(group, options(g));
    c10::impl::GenericList members(c10::AnyType::get());
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (all.group_of(k) != g) continue;
      if (kept[k].steps > 0) states.insert(number, python_state(kept[k], options(g)));
      members.push_back(IValue(number++));
    }
    group.insert("params", members);
    groups.push_back(group);
  }
  auto whole = words();
  whole.insert("state", states);
  whole.insert("param_groups", groups);
  replace_file(file, zipped(whole));
}

void ContiguousOptimizer::load(const std::string& file) {
  const auto& all = parameters();
  std::vector<std::size_t> sizes(state_->options.size());
  for (std::size_t k = 0; k < all.size(); ++k) ++sizes[all.group_of(k)];
  const auto value = unzipped(file);
  Read found;
  try {
    found = read(value, state_->options, sizes);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // something is of another type, or is not there
    refuse_archive(file, "holds no state_dict() of an optimizer", error);
  }
  const auto before = state_->options;
  try {
    for (std::size_t g = 0; g < found.options.size(); ++g) state_->set_options(g, found.options[g]);
    state_->set_state(
        found.states);  // in the file as here, the parameters of a group follow those of the last
  } catch (...) {
    for (std::size_t g = 0; g < before.size(); ++g) state_->set_options(g, before[g]);
    throw;
  }
}

}  // namespace speedtorch
