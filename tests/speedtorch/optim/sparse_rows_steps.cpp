/// Runs SparseRows by command lines from Python, which compares with torch's own optimizers
/// (sparse_rows_test.py). Each command gets one line as its answer: "error: ..." if the library threw.
///
///   threads N                                     -> ok
///   isa                                           -> the instruction set in use
///   table FILE.npy                                -> ok
///   optimizer NAME [option=number ...] [count=1]  -> the states' names; count=1: each row counts its steps
///   step INDEX.npy GRAD.npy                       -> ok; a file is read once, at its first use
///   save FOLDER                                   -> ok: FOLDER/table and FOLDER/STATE, plain bytes
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "speedtorch/kernels/isa.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/threads.h"
#include "tests/speedtorch/line_program.h"
#include "tests/speedtorch/named_options.h"

namespace speedtorch {
namespace {

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

  std::string optimizer(std::istream& words) {
    std::string name;
    words >> name;
    auto given = read_options(words);
    const bool by_row = given.erase("count") > 0;
    rows_.emplace(table_, named_options(name, given), default_table_options(),
                  by_row ? StepCount::by_row : StepCount::shared);
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
    rows_.value().step(index, grad);
    return "ok";
  }

  std::string save(std::istream& words) {
    std::string folder;
    words >> folder;
    write_bytes(table_, folder + "/table");
    for (const auto& state : rows_.value().states()) write_bytes(state.table, folder + "/" + state.name);
    return "ok";
  }

  at::Tensor table_;
  std::optional<SparseRows> rows_;
  std::map<std::string, at::Tensor> read_;
};

}  // namespace
}  // namespace speedtorch

int main() {
  speedtorch::Session session;
  return speedtorch::answer_lines([&](const std::string& line) { return session.answer(line); });
}
