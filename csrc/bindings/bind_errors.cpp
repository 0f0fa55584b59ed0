// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string>

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>

#include "bindings/interpreter/python_error.h"
#include "bindings/module.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

/// The exception classes of the library; borrowed from the module, which is never unloaded.
constexpr const char* kDisagreedOn = "disagreed_on";

struct ErrorTypes {
  PyObject* out_of_range;
  PyObject* invalid_argument;
  PyObject* damaged_picture;
  PyObject* unequal_rows;
  PyObject* not_found;
  PyObject* remote;
  PyObject* failed_precondition;
  PyObject* distributed;
} types;

/// `attributes`: of the class; none by default.
PyObject* add_error(py::module_& module, const char* name, PyObject* base, const char* doc,
                    const py::dict& attributes = {}) {
  const std::string qualified = std::string("torch_distinput.") + name;
  PyObject* const type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, attributes.ptr());
  if (type == nullptr) throw py::error_already_set();
  module.attr(name) = py::reinterpret_borrow<py::object>(type);
  return type;
}

/// The same for a class of two bases.
PyObject* add_error(py::module_& module, const char* name, PyObject* base, PyObject* other, const char* doc) {
  return add_error(module, name, py::make_tuple(py::handle(base), py::handle(other)).ptr(), doc);
}

void set(PyObject* type, const c10::Error& error) { set_error(type, error.what_without_backtrace()); }

void translate(std::exception_ptr raised);

/// The exception that this rank itself raised becomes the cause (`__cause__`) of the error that all ranks
/// get.
void set_distributed(const DistributedDatasetError& error) {
  set(types.distributed, error);
  const PythonError everywhere = PythonError::fetch();
  const auto* const own = dynamic_cast<const std::nested_exception*>(&error);
  const bool has_cause = own != nullptr && own->nested_ptr();
  if (has_cause) translate(own->nested_ptr());
  const PythonError::Raised raised = everywhere.take();
  if (has_cause) PyException_SetCause(raised.value.ptr(), PythonError::fetch().take().value.release().ptr());
  if (!error.disagreed_on().empty()) py::setattr(raised.value, kDisagreedOn, py::str(error.disagreed_on()));
  raised.restore();
}

void set_damaged_picture(const DamagedPictureError& error) {
  const py::object cause = py::handle(PyExc_OSError)(text_to_python(error.problem().c_str()));
  set(types.damaged_picture, error);
  const PythonError::Raised raised = PythonError::fetch().take();
  PyException_SetCause(raised.value.ptr(), cause.inc_ref().ptr());
  raised.restore();
}

void set_remote(const RemoteError& error) {
  set(types.remote, error);
  const PythonError::Raised raised = PythonError::fetch().take();
  const RemoteError::Details& said = error.details();
  py::setattr(raised.value, "url", text_to_python(said.url.c_str()));
  py::setattr(raised.value, "status", py::int_(said.status));
  py::setattr(raised.value, "code", text_to_python(said.code.c_str()));
  py::setattr(raised.value, "request_id", text_to_python(said.request_id.c_str()));
  raised.restore();
}

void translate(std::exception_ptr raised) {
  try {
    if (raised) std::rethrow_exception(raised);
  } catch (const PythonError& error) {
    error.restore();
  } catch (const PythonInterrupt& interrupt) {
    interrupt.error.restore();
  } catch (const OutOfRangeError& error) {
    set(types.out_of_range, error);
  } catch (const DamagedPictureError& error) {
    set_damaged_picture(error);
  } catch (const UnequalRowsError& error) {
    set(types.unequal_rows, error);
  } catch (const InvalidArgumentError& error) {
    set(types.invalid_argument, error);
  } catch (const NotFoundError& error) {
    set(types.not_found, error);
  } catch (const RemoteError& error) {
    set_remote(error);
  } catch (const SystemError& error) {
    // As `OSError(code, text)`: Python makes the subclass for the code.
    const auto arguments = py::make_tuple(error.code(), text_to_python(error.what_without_backtrace()));
    PyErr_SetObject(PyExc_OSError, arguments.ptr());
  } catch (const FailedPreconditionError& error) {
    set(types.failed_precondition, error);
  } catch (const DistributedDatasetError& error) {
    set_distributed(error);
  } catch (const c10::ValueError& error) {
    set(PyExc_ValueError, error);
  } catch (const c10::TypeError& error) {
    set(PyExc_TypeError, error);
  } catch (const c10::IndexError& error) {
    set(PyExc_IndexError, error);
  } catch (const c10::NotImplementedError& error) {
    set(PyExc_NotImplementedError, error);
  } catch (const c10::Error& error) {
    set(PyExc_RuntimeError, error);
  }
}

}  // namespace

void bind_errors(py::module_& module) {
  PyObject* const invalid_argument =
      add_error(module, "InvalidArgumentError", PyExc_ValueError,
                "A value of the right type that cannot be used, such as an empty Optional.");
  types = {
      .out_of_range = add_error(module, "OutOfRangeError", PyExc_IndexError, "The end of the data."),
      .invalid_argument = invalid_argument,
      .damaged_picture = add_error(module, "DamagedPictureError", invalid_argument, PyExc_OSError,
                                   "An encoded image is damaged, truncated, too large or of an unknown "
                                   "format. Pillow raises OSError for it."),
      .unequal_rows =
          add_error(module, "UnequalRowsError", PyExc_ValueError, PyExc_RuntimeError,
                    "Rows of a batch differ in their shape. torch.stack raises RuntimeError for it."),
      .not_found = add_error(module, "NotFoundError", PyExc_FileNotFoundError,
                             "A file or a source that can be sharded is missing."),
      .remote = add_error(
          module, "RemoteError", PyExc_OSError,
          "An object of a store (a URL) cannot be read, listed or written, or was replaced while it was "
          "read. `url`: without its query. `status`: of HTTP, 0 where no answer came. `code` and "
          "`request_id`: what the service tells, or \"\".",
          py::dict(py::arg("url") = "", py::arg("status") = 0, py::arg("code") = "",
                   py::arg("request_id") = "")),
      .failed_precondition =
          add_error(module, "FailedPreconditionError", PyExc_RuntimeError,
                    "A call in a state that does not allow it, such as `next` after `close`."),
      .distributed = add_error(
          module, "DistributedDatasetError", PyExc_RuntimeError,
          "Another process failed, left or disagrees; the message names its rank. `disagreed_on`: the "
          "name of the fact on which the processes do not agree; None for other errors.",
          py::dict(py::arg(kDisagreedOn) = py::none())),
  };
  py::register_local_exception_translator(translate);
}

}  // namespace torch_distinput
