#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "python/native/bindings.h"
#include "speedtorch/error.h"
#include "speedtorch/shared/handover.h"
#include "speedtorch/shared/shared_table.h"

namespace speedtorch::python {
namespace {

namespace py = pybind11;
using Released = py::call_guard<py::gil_scoped_release>;

std::chrono::milliseconds milliseconds_of(const char* name, double seconds) {
  const std::chrono::duration<double> longest = kLongestWait, time(seconds);
  if (!(seconds >= 0 && time <= longest))
    throw OptionError(std::string(name) + " is " + std::to_string(seconds) + " s; it is 0 to " +
                      std::to_string(std::chrono::floor<std::chrono::seconds>(longest).count()));
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

Writers writers_of(const std::string& name) {
  if (name == "holder") return Writers::holder;
  if (name == "row_locks") return Writers::row_locks;
  throw OptionError("writers is '" + name + "'; choose holder, row_locks");
}

SharedTable hold(const std::string& name, const Table& table, const std::string& writers,
                 double lock_timeout) {
  return SharedTable::hold(
      name, table,
      {.writers = writers_of(writers), .lock_timeout = milliseconds_of("lock_timeout", lock_timeout)});
}

SharedTable attach(const std::string& name, bool writable, double timeout, double lock_timeout,
                   std::optional<at::ScalarType> dtype, const std::vector<std::int64_t>& sizes) {
  return SharedTable::attach(name, {.access = writable ? Access::read_write : Access::read_only,
                                    .timeout = milliseconds_of("timeout", timeout),
                                    .lock_timeout = milliseconds_of("lock_timeout", lock_timeout),
                                    .dtype = dtype,
                                    .sizes = sizes});
}

}  // namespace

void bind_shared(py::module_& module) {
  py::class_<SharedTable>(module, "SharedTable")
      .def_static("hold", &hold, Released())
      .def_static("attach", &attach, Released())
      .def(
          "scatter",
          [](const SharedTable& shared, const at::Tensor& index, const at::Tensor& values,
             const std::string& duplicates) { shared.scatter(index, values, duplicates_of(duplicates)); },
          Released())
      .def("finish_rows", &SharedTable::finish_rows, Released())
      .def("flush", &SharedTable::flush, Released())
      .def_property_readonly("table", &SharedTable::table, py::return_value_policy::copy)
      .def_property_readonly("writable",
                             [](const SharedTable& shared) { return shared.access() == Access::read_write; })
      .def_property_readonly("writers",
                             [](const SharedTable& shared) {
                               return shared.writers() == Writers::holder ? "holder" : "row_locks";
                             })
      .def_property_readonly("holder", &SharedTable::holder);
}

}  // namespace speedtorch::python
