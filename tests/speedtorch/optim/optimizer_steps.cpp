/// Runs the optimizers of speedtorch/optim and OptimizerFactory by command lines from Python, which compares
/// with torch's own (optimizers_test.py, optimizer_factory_test.py). Each command gets one line as its
/// answer: "error: ..." if the library threw.
///
///   isa                                 -> the instruction set in use
///   group [option=number ...]           -> ok: the group of the parameters that follow
///   parameter FILE.npy                  -> ok
///   optimizer NAME                      -> ok: of these groups
///   step GRAD.npy ...                   -> ok: a gradient for each parameter, "-" for none
///   sparse INDEX.npy VALUES.npy         -> ok: one step of the parameter by an uncoalesced sparse gradient
///   save FILE | load FILE               -> ok: an archive of LibTorch's
///   write FOLDER                        -> ok: FOLDER/K and FOLDER/K.STATE, plain bytes
///
///   factory KIND NAME FILE.npy PLACEMENT [option=number ...] [count=1]
///                                       -> the states' names; KIND: torch or speedtorch
///   swap ROWS.npy GRAD.npy              -> ok: a step of these distinct rows
///   keep FOLDER | resume FOLDER         -> ok: OptimizerFactory's save() and load()
///   tables FOLDER                       -> ok: FOLDER/table and FOLDER/STATE, plain bytes
#include <ATen/ops/sparse_coo_tensor.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "speedtorch/kernels/isa.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/rows/rows.h"
#include "tests/speedtorch/host_placements.h"
#include "tests/speedtorch/line_program.h"
#include "tests/speedtorch/named_options.h"

namespace speedtorch {
namespace {

using torch::optim::OptimizerParamGroup;
using Given = std::map<std::string, double>;

at::Tensor read(std::istream& words) {
  std::string file;
  words >> file;
  return Table::from_file(file).host_tensor();
}

void write_bytes(const at::Tensor& tensor, const std::string& path) {
  const auto whole = tensor.detach().contiguous();
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(whole.const_data_ptr()), static_cast<std::streamsize>(whole.nbytes()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

/// Our optimizers; each group has its own options.
std::unique_ptr<torch::optim::Optimizer> ours(
    const std::string& name, const std::vector<std::pair<std::vector<at::Tensor>, Given>>& given) {
  return std::visit(
      [&]<class Options>(const Options& defaults) -> std::unique_ptr<torch::optim::Optimizer> {
        std::vector<OptimizerParamGroup> groups;
        for (const auto& [parameters, options] : given) {
          auto own = std::make_unique<optim::GroupOptions<Options>>(options_from<Options>(options));
          groups.emplace_back(parameters, std::move(own));
        }
        return std::make_unique<optim::OptimizerOf<Options>>(groups, defaults);
      },
      named_options(name, {}));
}

std::unique_ptr<torch::optim::Optimizer> libtorchs(const at::Tensor& weight, const AdamOptions& o) {
  return std::make_unique<torch::optim::Adam>(std::vector{weight}, torch::optim::AdamOptions(o.lr)
                                                                       .betas({o.betas.first, o.betas.second})
                                                                       .eps(o.eps)
                                                                       .weight_decay(o.weight_decay)
                                                                       .amsgrad(o.amsgrad));
}
std::unique_ptr<torch::optim::Optimizer> libtorchs(const at::Tensor& weight, const AdamWOptions& o) {
  return std::make_unique<torch::optim::AdamW>(std::vector{weight},
                                               torch::optim::AdamWOptions(o.lr)
                                                   .betas({o.betas.first, o.betas.second})
                                                   .eps(o.eps)
                                                   .weight_decay(o.weight_decay)
                                                   .amsgrad(o.amsgrad));
}
std::unique_ptr<torch::optim::Optimizer> libtorchs(const at::Tensor& weight, const AdagradOptions& o) {
  return std::make_unique<torch::optim::Adagrad>(std::vector{weight},
                                                 torch::optim::AdagradOptions(o.lr)
                                                     .lr_decay(o.lr_decay)
                                                     .weight_decay(o.weight_decay)
                                                     .initial_accumulator_value(o.initial_accumulator_value)
                                                     .eps(o.eps));
}
std::unique_ptr<torch::optim::Optimizer> libtorchs(const at::Tensor& weight, const RMSpropOptions& o) {
  return std::make_unique<torch::optim::RMSprop>(std::vector{weight}, torch::optim::RMSpropOptions(o.lr)
                                                                          .alpha(o.alpha)
                                                                          .eps(o.eps)
                                                                          .weight_decay(o.weight_decay)
                                                                          .momentum(o.momentum)
                                                                          .centered(o.centered));
}
std::unique_ptr<torch::optim::Optimizer> libtorchs(const at::Tensor& weight, const SGDOptions& o) {
  return std::make_unique<torch::optim::SGD>(std::vector{weight}, torch::optim::SGDOptions(o.lr)
                                                                      .momentum(o.momentum)
                                                                      .dampening(o.dampening)
                                                                      .weight_decay(o.weight_decay)
                                                                      .nesterov(o.nesterov));
}
template <class Options>
std::unique_ptr<torch::optim::Optimizer> libtorchs(const at::Tensor& /*weight*/, const Options& /*options*/) {
  throw std::invalid_argument("LibTorch has no such optimizer");
}

/// An optimizer of whole parameters.
class Whole {
 public:
  std::string group(std::istream& words) {
    if (optimizer_) *this = {};
    groups_.emplace_back(std::vector<at::Tensor>(), read_options(words));
    return "ok";
  }

  std::string parameter(std::istream& words) {
    groups_.back().first.push_back(read(words).clone().requires_grad_(true));
    parameters_.push_back(groups_.back().first.back());
    return "ok";
  }

  std::string optimizer(std::istream& words) {
    words >> name_;
    optimizer_ = ours(name_, groups_);
    return "ok";
  }

  std::string step(std::istream& words) {
    for (auto& parameter : parameters_) {
      const auto at = words.tellg();
      std::string word;
      words >> word;
      if (word == "-") {
        parameter.mutable_grad() = at::Tensor();
        continue;
      }
      words.seekg(at);
      parameter.mutable_grad() = read(words).clone();
    }
    optimizer_->step();
    return "ok";
  }

  std::string sparse(std::istream& words) {
    const auto index = read(words).to(at::kLong).unsqueeze(0);
    auto& parameter = parameters_.at(0);
    parameter.mutable_grad() = at::sparse_coo_tensor(index, read(words).clone(), parameter.sizes());
    optimizer_->step();
    return "ok";
  }

  std::string save(std::istream& words) const {
    std::string file;
    words >> file;
    torch::serialize::OutputArchive archive;
    optimizer_->save(archive);
    archive.save_to(file);
    return "ok";
  }

  std::string load(std::istream& words) {
    std::string file;
    words >> file;
    torch::serialize::InputArchive archive;
    archive.load_from(file);
    optimizer_->load(archive);
    return "ok";
  }

  std::string write(std::istream& words) const {
    std::string folder;
    words >> folder;
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      const auto file = folder + "/" + std::to_string(k);
      write_bytes(parameters_[k], file);
      const auto kept = optimizer_->state().find(parameters_[k].unsafeGetTensorImpl());
      if (kept == optimizer_->state().end()) continue;
      for (const auto& [name, table] : static_cast<const optim::ParamState&>(*kept->second).states)
        write_bytes(table, file + "." + name);
    }
    return "ok";
  }

 private:
  std::vector<std::pair<std::vector<at::Tensor>, Given>> groups_;
  std::vector<at::Tensor> parameters_;
  std::string name_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

/// SpeedTorch's flow: a table, and a weight that holds the rows of a batch.
class Swapped {
 public:
  explicit Swapped(std::istream& words) {
    std::string kind;
    std::string name;
    std::string placement;
    words >> kind >> name;
    table_ = read(words).clone();
    words >> placement;
    auto given = read_options(words);
    const auto count = given.erase("count") > 0 ? StepCount::by_row : StepCount::shared;
    weight_ = table_.narrow(0, 0, 1).clone().requires_grad_(true);
    if (kind == "torch")
      optimizer_ =
          std::visit([&](const auto& o) { return libtorchs(weight_, o); }, named_options(name, given));
    else
      optimizer_ = ours(name, {{{weight_}, given}});
    TableOptions home;
    for (const auto known : host_placements)
      if (to_string(known) == placement) home.placement = known;
    factory_.emplace(*optimizer_, weight_, table_.size(0), home, count);
  }

  [[nodiscard]] std::string names() const {
    std::string names;
    for (const auto& each : factory_->tables()) names += each.name + " ";
    return names;
  }

  std::string swap(std::istream& words) {
    const auto rows = read(words).clone();
    auto values = at::empty({rows.numel(), table_.size(1)}, table_.options());
    gather_rows(table_, rows, values);
    weight_.set_data(values);
    weight_.mutable_grad() = read(words).clone();
    factory_->before_forward_pass(WeightRows(rows));
    optimizer_->step();
    factory_->after_optimizer_step(rows);
    scatter_rows(table_, rows, weight_.detach());
    return "ok";
  }

  std::string keep(std::istream& words) const {
    std::string folder;
    words >> folder;
    factory_->save(folder);
    return "ok";
  }

  std::string resume(std::istream& words) {
    std::string folder;
    words >> folder;
    factory_->load(folder);
    return "ok";
  }

  std::string tables(std::istream& words) const {
    std::string folder;
    words >> folder;
    write_bytes(table_, folder + "/table");
    for (const auto& [name, table] : factory_->tables())
      write_bytes(table.host_tensor(), folder + "/" + name);
    return "ok";
  }

 private:
  at::Tensor table_;
  at::Tensor weight_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<OptimizerFactory> factory_;
};

class Session {
 public:
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "isa") return std::string(kernels::isa_in_use());
    if (command == "group") return whole_.group(words);
    if (command == "parameter") return whole_.parameter(words);
    if (command == "optimizer") return whole_.optimizer(words);
    if (command == "step") return whole_.step(words);
    if (command == "sparse") return whole_.sparse(words);
    if (command == "save") return whole_.save(words);
    if (command == "load") return whole_.load(words);
    if (command == "write") return whole_.write(words);
    if (command == "factory") return swapped_.emplace(words).names();
    if (command == "swap") return swapped_.value().swap(words);
    if (command == "keep") return swapped_.value().keep(words);
    if (command == "resume") return swapped_.value().resume(words);
    if (command == "tables") return swapped_.value().tables(words);
    throw std::invalid_argument("no command " + command);
  }

 private:
  Whole whole_;
  std::optional<Swapped> swapped_;
};

}  // namespace
}  // namespace speedtorch

int main() {
  speedtorch::Session session;
  return speedtorch::answer_lines([&](const std::string& line) { return session.answer(line); });
}
