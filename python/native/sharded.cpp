// Tables whose rows are spread over the processes of a torch.distributed group.
#include "speedtorch/sharded/sharded_table.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/native/bindings.h"
#include "speedtorch/sharded/sharded_files.h"

namespace speedtorch::python {
namespace {

namespace py = pybind11;
using Released = py::call_guard<py::gil_scoped_release>;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// The end of a group joins its threads, which may wait for other ranks.
struct DeleteReleased {
  void operator()(ShardedTable* table) const {
    const py::gil_scoped_release released;
    delete table;
  }
};

ShardedOptions sharded_options(const std::string& sharding, const std::string& placement,
                               std::int64_t chunk_bytes, bool node_first, std::string node) {
  return {.sharding = sharding_of(sharding),
          .shard = {.placement = placement_of(placement)},
          .chunk_bytes = chunk_bytes,
          .node_first = node_first,
          .node = std::move(node)};
}

Table load_as_table(const std::string& folder, const std::string& placement, at::Device device,
                    const std::string& file, bool shared) {
  return load_sharded_as_table(folder, table_options(placement, device, file, shared));
}

struct Policy {
  Duplicates duplicates;
};

ShardedOperation operation_of(const std::string& name) {
  return name == "gather"    ? ShardedOperation::gather
         : name == "scatter" ? ShardedOperation::scatter
                             : ShardedOperation::step;
}

/// The number of each row of the shard in the whole table.
at::Tensor row_numbers(const ShardedTable& table) {
  auto numbers = at::empty({table.shard().rows()}, at::kLong);
  auto* number = numbers.data_ptr<std::int64_t>();
  for (std::int64_t k = 0; k < table.shard().rows(); ++k)
    number[k] = table.owners().row_of({table.group().rank(), k});
  return numbers;
}

}  // namespace

void bind_sharded(py::module_& module) {
  py::class_<Policy>(module, "Duplicates").def(py::init([](const std::string& name) {
    return Policy{duplicates_of(name)};
  }));
  py::class_<ShardedOptions>(module, "ShardedOptions").def(py::init(&sharded_options));
  py::class_<ShardedTable, std::unique_ptr<ShardedTable, DeleteReleased>>(module, "ShardedTable")
      .def_static(
          "empty",
          [](const Group& group, const std::vector<std::int64_t>& sizes, at::ScalarType dtype,
             const ShardedOptions& options) {
            return ShardedTable::empty(RankGroup(group), sizes, dtype, options);
          },
          Released())
      .def_static(
          "from_array",
          [](const Group& group, const at::Tensor& array, const ShardedOptions& options) {
            return ShardedTable::from_array(RankGroup(group), array, options);
          },
          Released())
      .def_static(
          "load",
          [](const Group& group, const std::string& folder, const ShardedOptions& options) {
            return load_sharded(RankGroup(group), folder, options);
          },
          Released())
      .def_static("load_as_table", &load_as_table, Released())
      .def_static(
          "refuse_new",
          [](const Group& group, const std::string& why) { ShardedTable::refuse_new(RankGroup(group), why); },
          Released())
      .def(
          "refuse",
          [](ShardedTable& table, const std::string& operation, const std::string& why) {
            if (operation == "save") return refuse_save(table, why);
            table.refuse(operation_of(operation), why);
          },
          Released())
      .def("save", &save_sharded, Released())
      .def(
          "gather", [](ShardedTable& table, const at::Tensor& index) { return table.gather(index); },
          Released())
      .def(
          "gather_out",
          [](ShardedTable& table, const at::Tensor& index, at::Tensor out) { table.gather(index, out); },
          Released())
      .def(
          "scatter",
          [](ShardedTable& table, const at::Tensor& index, const at::Tensor& values, const Policy& policy) {
            table.scatter(index, values, policy.duplicates);
          },
          Released())
      .def(
          "collect",
          [](ShardedTable& table, const at::Tensor& index, const at::Tensor& grad) {
            return table.collect(index, grad);
          },
          Released())
      .def("shard", &ShardedTable::shard)
      .def("row_numbers", &row_numbers, Released())
      .def_property_readonly(
          "sharding",
          [](const ShardedTable& table) { return std::string(to_string(table.owners().sharding())); })
      .def_property_readonly("shape", [](const ShardedTable& table) { return table.sizes().vec(); })
      .def_property_readonly("dtype", &ShardedTable::dtype)
      .def_property_readonly("last_exchange", &ShardedTable::last_exchange);
  py::class_<ExchangeCounts>(module, "ExchangeCounts")
      .def_readonly("asked_rows", &ExchangeCounts::asked_rows)
      .def_readonly("node_rows", &ExchangeCounts::node_rows)
      .def_readonly("served_rows", &ExchangeCounts::served_rows)
      .def_readonly("chunks", &ExchangeCounts::chunks)
      .def_readonly("id_bytes", &ExchangeCounts::id_bytes);
}

}  // namespace speedtorch::python
