#include <torch/csrc/utils/pybind.h>

#include "python/native/bindings.h"
#include "python/native/ops.h"
#include "speedtorch/kernels/isa.h"
#include "speedtorch/threads.h"

namespace speedtorch::python {

/// Calls of the operators that skip the parsing of torch.ops. They go through the dispatcher, so that
/// autograd and tensors of other kinds work.
void bind_rows(pybind11::module_& module) {
  namespace py = pybind11;
  using released = py::call_guard<py::gil_scoped_release>;
  module.def(
      "gather_rows",
      [](const at::Tensor& table, const at::Tensor& index, bool sparse_grad) {
        return gather_op().call(table, index, sparse_grad);
      },
      released());
  module.def(
      "gather_rows_out",
      [](const at::Tensor& table, const at::Tensor& index, at::Tensor out) {
        gather_out_op().call(table, index, out);
      },
      released());
  module.def(
      "scatter_rows",
      [](at::Tensor table, const at::Tensor& index, const at::Tensor& values, const std::string& duplicates) {
        scatter_op().call(table, index, values, duplicates);
      },
      released());
  module.def("duplicate_policies", &duplicate_policies);
}

}  // namespace speedtorch::python

PYBIND11_MODULE(_native, module) {
  module.doc() = "The library's C++ functions for the Python package speedtorch.";
  speedtorch::python::bind_errors(module);
  speedtorch::python::bind_rows(module);
  speedtorch::python::bind_tables(module);
  speedtorch::python::bind_steps(module);
  speedtorch::python::bind_contiguous(module);
}
