/// Runs ContiguousOptimizer by command lines from Python (contiguous_test.py), which compares with torch's
/// own optimizers. Each command gets one line as its answer: "error: ..." if the library threw.
///
///   threads N                                               -> ok
///   steps NAME [option=value ...] IN OUT LOADED SAVED       -> the instruction set in use
///
/// IN and OUT are files of torch.save(). IN: {"parameters": [tensor ...], "frozen": [bool ...], "gradients":
/// [[tensor or None ...] per step], "unused": "skip" or "zero", "none": bool, "first_group": the number of
/// parameters in the first of two groups, or 0 for a single group}. The second group has half the lr. With
/// `none`, gradients are set to none between steps, as torch's zero_grad() does; else our zero_grad() runs.
/// OUT: [tensor ...]. LOADED and SAVED are files of states, or "-" for none.
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/kernels/isa.h"
#include "speedtorch/threads.h"
#include "tests/speedtorch/line_program.h"
#include "tests/speedtorch/named_options.h"

namespace speedtorch {
namespace {

c10::IValue read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return torch::jit::pickle_load(std::vector<char>{std::istreambuf_iterator<char>(file), {}});
}

void write(const std::string& path, const c10::IValue& value) {
  const auto bytes = torch::jit::pickle_save(value);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void accumulate(at::Tensor& parameter, const c10::IValue& gradient) {
  if (gradient.isNone()) return;
  if (parameter.grad().defined())
    parameter.mutable_grad().add_(gradient.toTensor());
  else
    parameter.mutable_grad() = gradient.toTensor().clone();
}

void run(const UpdateOptions& options, const std::vector<std::string>& files) {
  const auto given = read(files[0]).toGenericDict();
  std::vector<at::Tensor> parameters;
  const auto frozen = given.at("frozen").toListRef();
  for (const auto& tensor : given.at("parameters").toListRef()) {
    const bool trained = !frozen[parameters.size()].toBool();
    parameters.push_back(tensor.toTensor().set_requires_grad(trained));
  }
  OptimizerOptions more;
  more.unused = given.at("unused").toStringRef() == "zero" ? Unused::zero : Unused::skip;
  const auto split = given.at("first_group").toInt();
  std::vector<ParameterGroup> groups{{{parameters.begin(), parameters.begin() + split}, {}, options},
                                     {{parameters.begin() + split, parameters.end()}, {}, options}};
  std::visit([](auto& one) { one.lr /= 2; }, *groups[1].options);
  if (split == 0) groups = {{parameters, {}, options}};
  ContiguousOptimizer optimizer(groups, options, more);
  if (files[2] != "-") optimizer.load(files[2]);
  for (const auto& step : given.at("gradients").toListRef()) {
    if (given.at("none").toBool()) {
      for (auto& parameter : parameters) parameter.mutable_grad() = at::Tensor();
    } else {
      optimizer.zero_grad();
    }
    for (std::size_t k = 0; k < parameters.size(); ++k) accumulate(parameters[k], step.toListRef()[k]);
    optimizer.step();
  }
  c10::impl::GenericList out(c10::AnyType::get());
  for (const auto& parameter : parameters) out.push_back(parameter.detach().clone());
  write(files[1], out);
  if (files[3] != "-") optimizer.save(files[3]);
}

std::string answer(const std::string& line) {
  std::istringstream words(line);
  std::string command;
  std::string name;
  words >> command >> name;
  if (command == "threads") return set_threads(std::stoi(name), {}), "ok";
  std::map<std::string, double> options;
  std::vector<std::string> files;
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    if (equals == std::string::npos)
      files.push_back(word);
    else
      options[word.substr(0, equals)] = std::stod(word.substr(equals + 1));
  }
  run(named_options(name, options), files);
  return std::string(kernels::isa_in_use());
}

}  // namespace
}  // namespace speedtorch

int main() { return speedtorch::answer_lines(speedtorch::answer); }
