// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/interpreter/python_error.h"

#include <cstring>
#include <exception>
#include <utility>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

std::string text_of(PyObject* value) {
  std::string text = Py_TYPE(value)->tp_name;
  const auto message = py::reinterpret_steal<py::object>(PyObject_Str(value));
  const char* characters = message ? PyUnicode_AsUTF8(message.ptr()) : nullptr;
  if (characters == nullptr) {
    PyErr_Clear();
    return text;
  }
  return *characters == '\0' ? text : text + ": " + characters;
}

py::object borrow(const PyRef& ref) { return py::reinterpret_borrow<py::object>(ref.get()); }

}  // namespace

PythonError PythonError::fetch() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);

  PythonError error;
  error.text_ = std::make_shared<const std::string>(text_of(value));
  error.payload_ = std::make_shared<Payload>();
  error.payload_->value = share(py::reinterpret_steal<py::object>(value));
  if (traceback != nullptr) error.payload_->traceback = share(py::reinterpret_steal<py::object>(traceback));
  return error;
}

void PythonError::Raised::restore() const {
  PyErr_Restore(py::object(py::type::of(value)).release().ptr(), py::object(value).release().ptr(),
                py::object(traceback).release().ptr());
}

void PythonError::restore() const {
  if (payload_->value) {
    Raised{borrow(payload_->value), borrow(payload_->traceback)}.restore();
  } else {
    set_error(PyExc_RuntimeError, what());
  }
}

PythonError::Raised PythonError::take() const {
  Raised raised{borrow(payload_->value), borrow(payload_->traceback)};
  *payload_ = {};
  return raised;
}

void PythonError::add_note(const std::string& note) const {
  if (!PyObject_HasAttrString(payload_->value.get(), "add_note")) return;
  const auto added = py::reinterpret_steal<py::object>(
      PyObject_CallMethod(payload_->value.get(), "add_note", "s", note.c_str()));
  if (!added) PyErr_Clear();
}

bool PythonError::is(PyObject* type) const {
  return PyErr_GivenExceptionMatches(payload_->value.get(), type) != 0;
}

py::object text_to_python(const char* text) {
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "backslashreplace");
  if (decoded == nullptr) throw_python();
  return py::reinterpret_steal<py::object>(decoded);
}

void set_error(PyObject* type, const char* message) { PyErr_SetObject(type, text_to_python(message).ptr()); }

void throw_python(PythonError error) {
  if (error.is(PyExc_Exception)) throw error;
  const auto interrupt = std::make_exception_ptr(PythonInterrupt{std::move(error)});
  report_interrupt(interrupt);
  std::rethrow_exception(interrupt);
}

void throw_python() { throw_python(PythonError::fetch()); }

void throw_from_callable(const std::string& op, const std::string& name, const std::string& where) {
  PythonError error = PythonError::fetch();
  if (error.is(PyExc_StopIteration)) {
    const std::string text = op + ": " + name + " raised StopIteration.";
    const py::object wrapper = py::reinterpret_borrow<py::object>(PyExc_RuntimeError)(text);
    PyException_SetCause(wrapper.ptr(), error.take().value.release().ptr());
    PyErr_SetObject(PyExc_RuntimeError, wrapper.ptr());
    error = PythonError::fetch();
  }
  error.add_note("raised by " + where);
  throw_python(std::move(error));
}

}  // namespace torch_distinput
