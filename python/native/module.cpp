#include <torch/csrc/autograd/python_variable.h>

#include <optional>

#include "python/native/bindings.h"
#include "python/native/ops.h"

namespace speedtorch::python {
namespace {

/// The tensor that an argument is. @throws pybind11::type_error naming the argument and its type
const at::Tensor& tensor_of(pybind11::handle argument, const char* name) {
  if (THPVariable_Check(argument.ptr())) return THPVariable_Unpack(argument.ptr());
  throw pybind11::type_error(std::string(name) + " is a " + Py_TYPE(argument.ptr())->tp_name +
                             "; a torch.Tensor is needed");
}

/// So many rows are moved sooner than Python's lock is released and taken again.
constexpr std::int64_t kFewRows = 16;

/// gather_rows_out(table, index, out). Parsed by hand, because a row takes less time than pybind11's parsing
/// of three tensors.
PyObject* gather_rows_out(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  constexpr Py_ssize_t kOperands = 3;
  if (count != kOperands) {
    PyErr_SetString(PyExc_TypeError, "gather_rows_out() takes the table, the index and out");
    return nullptr;
  }
  try {
    const auto& table = tensor_of(arguments[0], "the table");
    const auto& index = tensor_of(arguments[1], "the index");
    auto out = tensor_of(arguments[2], "out");
    std::optional<pybind11::gil_scoped_release> released;
    if (index.numel() > kFewRows) released.emplace();
    gather_out_op().call(table, index, out);
  } catch (...) {
    pybind11::detail::try_translate_exceptions();
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace

/// Calls of the operators that skip the parsing of torch.ops. They go through the dispatcher, so that
/// autograd and tensors of other kinds work.
void bind_rows(pybind11::module_& module) {
  namespace py = pybind11;
  module.def("gather_rows", [](const py::object& table, const py::object& index, bool sparse_grad) {
    const auto from = tensor_of(table, "the table"), numbers = tensor_of(index, "the index");
    const py::gil_scoped_release released;
    return gather_op().call(from, numbers, sparse_grad);
  });
  static PyMethodDef fast[] = {
      {"gather_rows_out", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&gather_rows_out)),
       METH_FASTCALL, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  if (PyModule_AddFunctions(module.ptr(), fast) != 0) throw py::error_already_set();
  module.def("scatter_rows", [](const py::object& table, const py::object& index, const py::object& values,
                                const std::string& duplicates) {
    auto to = tensor_of(table, "the table");
    const auto numbers = tensor_of(index, "the index"), rows = tensor_of(values, "values");
    const py::gil_scoped_release released;
    scatter_op().call(to, numbers, rows, duplicates);
  });
  module.def("duplicate_policies", &duplicate_policies);
}

}  // namespace speedtorch::python

PYBIND11_MODULE(_native, module) {
  module.doc() = "The library's C++ functions for the Python package speedtorch.";
  speedtorch::python::bind_errors(module);
  speedtorch::python::bind_files(module);
  speedtorch::python::bind_rows(module);
  speedtorch::python::bind_tables(module);
  speedtorch::python::bind_shared(module);
  speedtorch::python::bind_steps(module);
  speedtorch::python::bind_contiguous(module);
  speedtorch::python::bind_sharded(module);
}
