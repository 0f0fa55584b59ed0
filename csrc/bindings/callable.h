// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <pybind11/pybind11.h>

#include "bindings/interpreter/interpreter.h"
#include "bindings/interpreter/python_error.h"
#include "bindings/user_object.h"

namespace torch_distinput {

/// A user's callable and its names in messages. Calls need the GIL.
class Callable {
 public:
  Callable(UserObject callable, std::string op, std::string name)
      : callable_(std::move(callable)), op_(std::move(op)), name_(std::move(name)) {}

  const UserObject& object() const noexcept { return callable_; }
  const std::string& name() const noexcept { return name_; }
  std::string where() const { return op_ + "(" + name_ + ")"; }

  /// Returns the result for `arguments`, a tuple. What it raises says that it was raised at `row()`, a text
  /// such as `element 7`, and in which op.
  template <class Row>
  py::object operator()(const py::object& arguments, const Row& row) const {
    const py::object callable = callable_.get();
    PyObject* const result = run_python([&] { return PyObject_CallObject(callable.ptr(), arguments.ptr()); });
    if (result == nullptr) fail(row());
    return py::reinterpret_steal<py::object>(result);
  }

  /// Throws the Python exception that is set, as one that the callable has raised at `row`.
  [[noreturn]] void fail(const std::string& row) const {
    throw_from_callable(op_, name_, where() + ": " + row);
  }

 private:
  UserObject callable_;
  std::string op_;
  std::string name_;
};

}  // namespace torch_distinput
