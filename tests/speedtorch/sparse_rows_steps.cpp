/// SparseRows driven by lines, for Python programs that do the same by torch's own optimizers
/// (sparse_rows_test.py, scripts/optimizer-rounds). Each line has one line for an answer, "error: ..." where
/// the library refused.
///
///   threads N | isa                                   -> ok | the instruction set in use
///   table FILE.npy | zeros ROWS COLUMNS PLACEMENT     -> ok: float32 or as the file
///   optimizer NAME [option=value ...] [count=row]     -> the states' names
///   step INDEX.npy GRAD.npy                           -> nanoseconds; each file is read when first named
///   save FOLDER                                       -> ok: FOLDER/table and FOLDER/STATE, plain bytes
#include <ATen/ops/zeros.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "kernels/isa.h"
#include "speedtorch/sparse_rows.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

using Words = std::map<std::string, double>;

/// Takes an option out of what was given.
class Given {
 public:
  explicit Given(Words words) : words_(std::move(words)) {}

  void operator()(const char* name, double& value) {
    const auto found = words_.find(name);
    if (found == words_.end()) return;
    value = found->second;
    words_.erase(found);
  }
  void operator()(const char* name, bool& value) {
    double number = value ? 1 : 0;
    (*this)(name, number);
    value = number != 0;
  }
  void done() const {
    if (!words_.empty()) throw std::invalid_argument("no option " + words_.begin()->first);
  }

 private:
  Words words_;
};

template <class Options>
void decay_and_sign(Given& given, Options& o) {
  given("weight_decay", o.weight_decay);
  given("maximize", o.maximize);
}

template <class Options>
Options adam(Given& given) {
  Options o;
  given("lr", o.lr);
  given("beta1", o.betas.first);
  given("beta2", o.betas.second);
  given("eps", o.eps);
  given("maximize", o.maximize);
  if constexpr (!std::is_same_v<Options, SparseAdamOptions>) decay_and_sign(given, o);
  if constexpr (std::is_same_v<Options, AdamOptions> || std::is_same_v<Options, AdamWOptions>)
    given("amsgrad", o.amsgrad);
  return o;
}

UpdateOptions adagrad(Given& given) {
  AdagradOptions o;
  given("lr", o.lr);
  given("lr_decay", o.lr_decay);
  given("initial_accumulator_value", o.initial_accumulator_value);
  given("eps", o.eps);
  decay_and_sign(given, o);
  return o;
}

UpdateOptions rmsprop(Given& given) {
  RMSpropOptions o;
  given("lr", o.lr);
  given("alpha", o.alpha);
  given("eps", o.eps);
  given("momentum", o.momentum);
  given("centered", o.centered);
  decay_and_sign(given, o);
  return o;
}

UpdateOptions sgd(Given& given) {
  SGDOptions o;
  given("lr", o.lr);
  given("momentum", o.momentum);
  given("dampening", o.dampening);
  given("nesterov", o.nesterov);
  decay_and_sign(given, o);
  return o;
}

UpdateOptions adadelta(Given& given) {
  AdadeltaOptions o;
  given("lr", o.lr);
  given("rho", o.rho);
  given("eps", o.eps);
  decay_and_sign(given, o);
  return o;
}

UpdateOptions asgd(Given& given) {
  ASGDOptions o;
  given("lr", o.lr);
  given("lambd", o.lambd);
  given("alpha", o.alpha);
  given("t0", o.t0);
  decay_and_sign(given, o);
  return o;
}

UpdateOptions rprop(Given& given) {
  RpropOptions o;
  given("lr", o.lr);
  given("etaminus", o.etaminus);
  given("etaplus", o.etaplus);
  given("step_size_min", o.step_size_min);
  given("step_size_max", o.step_size_max);
  given("maximize", o.maximize);
  return o;
}

const std::map<std::string, std::function<UpdateOptions(Given&)>> optimizers{
    {"Adam", adam<AdamOptions>},
    {"AdamW", adam<AdamWOptions>},
    {"SparseAdam", adam<SparseAdamOptions>},
    {"Adamax", adam<AdamaxOptions>},
    {"Adagrad", adagrad},
    {"RMSprop", rmsprop},
    {"SGD", sgd},
    {"Adadelta", adadelta},
    {"ASGD", asgd},
    {"Rprop", rprop}};

Placement placement_of(const std::string& name) {
  for (const auto placement :
       {Placement::libtorch, Placement::pageable, Placement::hugepage, Placement::mapped}) {
    if (to_string(placement) == name) return placement;
  }
  throw std::invalid_argument("no placement of the host " + name);
}

void write_bytes(const at::Tensor& tensor, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(tensor.const_data_ptr()),
             static_cast<std::streamsize>(tensor.nbytes()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

class Session {
 public:
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "threads") return threads(words);
    if (command == "isa") return std::string(kernels::isa_in_use());
    if (command == "table") return table(words);
    if (command == "zeros") return zeros(words);
    if (command == "optimizer") return optimizer(words);
    if (command == "step") return step(words);
    if (command == "save") return save(words);
    throw std::invalid_argument("no command " + command);
  }

 private:
  std::string threads(std::istream& words) {
    int count = 0;
    words >> count;
    set_threads(count, {});
    return "ok";
  }

  std::string table(std::istream& words) {
    std::string file;
    words >> file;
    table_ = Table::from_file(file).host_tensor();
    return "ok";
  }

  std::string zeros(std::istream& words) {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::string placement;
    words >> rows >> columns >> placement;
    home_.placement = placement_of(placement);
    table_ = home_.placement == Placement::libtorch
                 ? at::zeros({rows, columns})
                 : Table::filled({rows, columns}, at::kFloat, Zeros{}, home_).host_tensor();
    return "ok";
  }

  std::string optimizer(std::istream& words) {
    std::string name;
    words >> name;
    StepCount count = StepCount::shared;
    Words options;
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (word == "count=shared") continue;
      if (word == "count=row")
        count = StepCount::by_row;
      else
        options[word.substr(0, equals)] = std::stod(word.substr(equals + 1));
    }
    Given given(options);
    const auto chosen = optimizers.at(name)(given);
    given.done();
    rows_.emplace(table_, chosen, home_, count);
    std::string names;
    for (const auto& state : rows_->states()) names += state.name + " ";
    return names;
  }

  const at::Tensor& read(std::istream& words) {
    std::string file;
    words >> file;
    auto found = read_.find(file);
    if (found == read_.end()) found = read_.emplace(file, Table::from_file(file).host_tensor()).first;
    return found->second;
  }

  std::string step(std::istream& words) {
    const auto& index = read(words);
    const auto& grad = read(words);
    const auto begin = std::chrono::steady_clock::now();
    rows_.value().step(index, grad);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    return std::to_string(took.count());
  }

  std::string save(std::istream& words) {
    std::string folder;
    words >> folder;
    write_bytes(table_, folder + "/table");
    for (const auto& state : rows_.value().states()) write_bytes(state.table, folder + "/" + state.name);
    return "ok";
  }

  Home home_;
  at::Tensor table_;
  std::optional<SparseRows> rows_;
  std::map<std::string, at::Tensor> read_;
};

}  // namespace
}  // namespace speedtorch

int main() {
  speedtorch::Session session;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << session.answer(line) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error: " << error.what() << std::endl;
    }
  }
}
