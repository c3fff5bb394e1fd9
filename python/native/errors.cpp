// Python's exceptions for the library's errors: each is a subclass of speedtorch.errors.Error and of the
// built-in exception that fits.

#include "speedtorch/error.h"

#include <pybind11/pybind11.h>

#include <array>
#include <cerrno>
#include <exception>

#include "python/native/bindings.h"
#include "speedtorch/contiguous/parameter_group.h"
#include "speedtorch/files/npy.h"
#include "speedtorch/files/safetensors.h"

namespace speedtorch::python {
namespace {

struct Kind {
  const char* name;
  PyObject* built_in;
  bool (*matches)(const std::exception&);
  PyObject* type = nullptr;
};

template <class Type>
bool is(const std::exception& error) {
  return dynamic_cast<const Type*>(&error) != nullptr;
}

PyObject* base_type = nullptr;  // of errors without a kind

// A derived class stands before its base.
std::array<Kind, 24>& kinds() {
  static std::array<Kind, 24> all{{
      {"IndexError", PyExc_IndexError, &is<IndexError>},
      {"ShapeError", PyExc_ValueError, &is<ShapeError>},
      {"OptionError", PyExc_ValueError, &is<OptionError>},
      {"OptimizerError", PyExc_ValueError, &is<OptimizerError>},
      {"FillError", PyExc_ValueError, &is<FillError>},
      {"DuplicateError", PyExc_ValueError, &is<DuplicateError>},
      {"PlacementError", PyExc_ValueError, &is<PlacementError>},
      {"NpyError", PyExc_ValueError, &is<NpyError>},
      {"SafetensorsError", PyExc_ValueError, &is<SafetensorsError>},
      {"MemoryError", PyExc_MemoryError, &is<MemoryError>},
      {"FileError", PyExc_OSError, &is<FileError>},
      {"NameError", PyExc_LookupError, &is<NameError>},
      {"AccessError", PyExc_PermissionError, &is<AccessError>},
      {"SharingError", PyExc_ConnectionError, &is<SharingError>},
      {"GroupError", PyExc_ConnectionError, &is<GroupError>},
      {"DisagreementError", PyExc_ValueError, &is<DisagreementError>},
      {"RankError", PyExc_RuntimeError, &is<RankError>},
      {"BufferError", PyExc_BufferError, &is<BufferError>},
      {"LazyTensorError", PyExc_ValueError, &is<LazyTensorError>},
      {"IsaError", PyExc_ValueError, &is<IsaError>},
      {"RowPlanError", PyExc_ValueError, &is<RowPlanError>},
      {"AutogradError", PyExc_RuntimeError, &is<AutogradError>},
      {"CudaError", PyExc_RuntimeError, &is<CudaError>},
      {"ThreadError", PyExc_RuntimeError, &is<ThreadError>},
  }};
  return all;
}

/// The kinds of FileError that Python has classes for, by the system's error number.
struct FileKind {
  int code;
  const char* name;
  PyObject* built_in;
  PyObject* type = nullptr;
};

std::array<FileKind, 5>& file_kinds() {
  static std::array<FileKind, 5> all{{
      {ENOENT, "FileNotFoundError", PyExc_FileNotFoundError},
      {EEXIST, "FileExistsError", PyExc_FileExistsError},
      {EISDIR, "IsADirectoryError", PyExc_IsADirectoryError},
      {EACCES, "PermissionError", PyExc_PermissionError},
      {EPERM, "PermissionError", PyExc_PermissionError},
  }};
  return all;
}

/// Raises it with errno and filename.
void raise_file(PyObject* type, const FileError& error) {
  for (const auto& kind : file_kinds())
    if (kind.code == error.code()) type = kind.type;
  if (error.code() == 0) return PyErr_SetString(type, error.what());
  const auto arguments = error.path().empty()
                             ? pybind11::make_tuple(error.code(), error.what())
                             : pybind11::make_tuple(error.code(), error.what(), error.path());
  PyErr_SetObject(type, arguments.ptr());
}

void raise(const std::exception& error) {
  for (const auto& kind : kinds()) {
    if (!kind.matches(error)) continue;
    if (const auto* file = dynamic_cast<const FileError*>(&error)) return raise_file(kind.type, *file);
    return PyErr_SetString(kind.type, error.what());
  }
  PyErr_SetString(base_type, error.what());
}

/// Kept for the life of the process: the translator may run at any time.
PyObject* new_type(pybind11::module_& module, const std::string& name, const pybind11::object& bases) {
  PyObject* const type = PyErr_NewException(("speedtorch.errors." + name).c_str(), bases.ptr(), nullptr);
  if (type == nullptr) throw pybind11::error_already_set();
  module.attr("errors")[name.c_str()] = pybind11::reinterpret_borrow<pybind11::object>(type);
  return type;
}

}  // namespace

void bind_errors(pybind11::module_& module) {
  module.attr("errors") = pybind11::dict();
  base_type = new_type(module, "Error", pybind11::reinterpret_borrow<pybind11::object>(PyExc_Exception));
  const auto base = pybind11::reinterpret_borrow<pybind11::object>(base_type);
  for (auto& kind : kinds()) {
    const auto built_in = pybind11::reinterpret_borrow<pybind11::object>(kind.built_in);
    kind.type = new_type(module, kind.name, pybind11::make_tuple(base, built_in));
  }
  const auto errors = pybind11::cast<pybind11::dict>(module.attr("errors"));
  for (auto& kind : file_kinds()) {
    const auto built_in = pybind11::reinterpret_borrow<pybind11::object>(kind.built_in);
    if (errors.contains(kind.name))
      kind.type = errors[kind.name].ptr();
    else
      kind.type = new_type(module, kind.name, pybind11::make_tuple(errors["FileError"], built_in));
  }
  // Torch's own modules use the same translators, so torch.ops raises these exceptions too.
  pybind11::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    } catch (const NpyError& error) {  // no Errors: the readers of formats stand alone
      raise(error);
    } catch (const SafetensorsError& error) {
      raise(error);
    }
  });
}

}  // namespace speedtorch::python
