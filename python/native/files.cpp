// Files in torch's format: torch.save() and torch.load() of Python move the bytes, the library does the rest.

#include <pybind11/pybind11.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "python/native/bindings.h"
#include "speedtorch/files/archive.h"
#include "speedtorch/system/new_file.h"

namespace speedtorch::python {
namespace {

namespace py = pybind11;
using Released = py::call_guard<py::gil_scoped_release>;

/// The memory of a Python object whose buffer is contiguous.
class BufferBytes {
 public:
  explicit BufferBytes(const py::object& object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ~BufferBytes() { PyBuffer_Release(&view_); }
  BufferBytes(const BufferBytes&) = delete;
  BufferBytes& operator=(const BufferBytes&) = delete;

  [[nodiscard]] std::string_view bytes() const {
    return {static_cast<const char*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

/// A binary file object whose `with` block writes a Replacement from start to end. The end of the block
/// publishes it, unless the block raised.
///
/// torch's writer ends the process if a write fails. So write() reports no error and drops what comes after
/// it, and the end of the block raises the first error.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path) : file_(std::make_unique<Replacement>(path)) {}

  std::size_t write(const py::object& piece) {
    const BufferBytes buffer(piece);
    const py::gil_scoped_release released;
    try {
      if (file_ && !failed_) file_->append(buffer.bytes());
    } catch (...) {
      failed_ = std::current_exception();
    }
    return buffer.bytes().size();
  }

  void close(bool raised) {
    const auto file = std::move(file_);
    if (failed_) std::rethrow_exception(failed_);
    if (file && !raised) file->publish();
  }

 private:
  std::unique_ptr<Replacement> file_;  ///< null once the block has ended
  std::exception_ptr failed_;
};

void close(FileWriter& file, const py::object& raised, const py::object& /*error*/,
           const py::object& /*traceback*/) {
  const bool discards = !raised.is_none();
  const py::gil_scoped_release released;
  file.close(discards);
}

}  // namespace

void bind_files(py::module_& module) {
  py::class_<FileWriter>(module, "FileWriter")
      .def(py::init<const std::string&>(), Released())
      .def("__enter__", [](const py::object& file) { return file; })
      .def("write", &FileWriter::write)
      .def("flush", [](const FileWriter& /*file*/) {})  // torch.save() calls it at its end
      .def("__exit__", &close);
  module.def("check_archive", &check_archive, Released());
}

}  // namespace speedtorch::python
