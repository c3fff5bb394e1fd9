#include "speedtorch/optim/state.h"

#include <variant>

#include "speedtorch/kernels/steps/updates.h"

namespace speedtorch {

std::vector<StateBegin> state_begins(const UpdateOptions& options) {
  return std::visit(
      [](const auto& update) {
        std::vector<StateBegin> begins;
        for (const char* name : update.names()) begins.push_back({name, update.initial(begins.size())});
        return begins;
      },
      kernels::make_update<double>(options));
}

std::vector<std::string> state_names(const UpdateOptions& options) {
  std::vector<std::string> names;
  for (const auto& begin : state_begins(options)) names.push_back(begin.name);
  return names;
}

}  // namespace speedtorch
