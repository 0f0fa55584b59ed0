// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <memory>
#include <string>

#include "bindings/interpreter/py_ref.h"

namespace torch_distinput {

/// A Python exception on its way through C++. Unlike pybind11's, it may be raised several times, and copied,
/// read and destroyed without the GIL.
class PythonError final : public std::exception {
 public:
  /// Takes the exception that is set. REQUIRES: the GIL.
  static PythonError fetch();

  /// The exception object and the traceback (may be null) it had when it was caught.
  struct Raised {
    pybind11::object value;
    pybind11::object traceback;
    /// Sets the exception again.
    void restore() const;
  };

  /// `ValueError: the message`.
  const char* what() const noexcept override { return text_->c_str(); }
  /// Sets the exception again. REQUIRES: the GIL.
  void restore() const;
  /// Moves the exception out of this object and all copies of it; from then on they restore a RuntimeError
  /// with the text. Null if that has happened before. REQUIRES: the GIL.
  Raised take() const;
  /// Where Python has notes (3.11), adds one to the exception. REQUIRES: the GIL.
  void add_note(const std::string& note) const;
  /// Whether the exception is an instance of `type`. REQUIRES: the GIL.
  bool is(PyObject* type) const;

 private:
  struct Payload {
    PyRef value;
    PyRef traceback;
  };
  PythonError() = default;

  std::shared_ptr<Payload> payload_;
  std::shared_ptr<const std::string> text_;
};

/// A KeyboardInterrupt, SystemExit or another exception that is no failure of a row: not a std::exception, so
/// that `on_error="skip"` lets it pass. Thrown in the thread of a consumer it is an interrupt of its call.
struct PythonInterrupt {
  PythonError error;
};

/// The str of a message; bytes that are not UTF-8, say of a file's name, stand in it as `\xff`. REQUIRES: the
/// GIL.
pybind11::object text_to_python(const char* text);
/// Sets an exception of `type` with that message. REQUIRES: the GIL.
void set_error(PyObject* type, const char* message);

/// Throws `error`, as a PythonInterrupt if it is one. REQUIRES: the GIL.
[[noreturn]] void throw_python(PythonError error);
/// Throws the Python exception that is set. REQUIRES: the GIL.
[[noreturn]] void throw_python();

/// Throws the Python exception that is set; one that a callable lets escape. Says in a note that it was
/// raised by `name` in `op`; a StopIteration becomes a RuntimeError, because it would end a loop that has no
/// part in it. REQUIRES: the GIL.
[[noreturn]] void throw_from_callable(const std::string& op, const std::string& name);

}  // namespace torch_distinput
