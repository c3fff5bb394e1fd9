#include "speedtorch/optim/state_tables.h"

#include <optional>

#include "speedtorch/system/new_folder.h"

namespace speedtorch {
namespace {

Fill constant_fill(double value) {
  if (value == 0) return Zeros{};
  return ByPieces([value](at::Tensor& rows, std::int64_t /*first_row*/) { rows.fill_(value); });
}

}  // namespace

std::string state_file(const std::string& folder, const std::string& name) {
  return folder + "/" + name + ".npy";
}

std::vector<StateTable> new_state_tables(at::IntArrayRef sizes, at::ScalarType dtype,
                                         const UpdateOptions& options, StepCount count,
                                         const TableOptions& home) {
  std::optional<NewFolder> folder;
  if (!home.file.empty()) folder.emplace(home.file);
  const auto home_of = [&](const std::string& name) {
    TableOptions one = home;
    if (folder) one.file = state_file(folder->path(), name);
    return one;
  };
  std::vector<StateTable> tables;
  for (const auto& [name, value] : state_begins(options))
    tables.push_back({name, Table::filled(sizes, dtype, constant_fill(value), home_of(name))});
  if (count == StepCount::by_row)
    tables.push_back(
        {row_steps_name, Table::filled({sizes.front()}, at::kLong, Zeros{}, home_of(row_steps_name))});
  if (folder) folder->publish();
  return tables;
}

}  // namespace speedtorch
