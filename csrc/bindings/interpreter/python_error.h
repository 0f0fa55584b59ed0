// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <string>

#include <pybind11/pybind11.h>

#include "bindings/interpreter/py_ref.h"

namespace torch_distinput {

/// A Python exception that passes through C++. Unlike pybind11's, it may be thrown several times, and copied,
/// read and destroyed without the GIL.
class PythonError final : public std::exception {
 public:
  /// Takes the Python exception that is set. REQUIRES: the GIL, and an exception is set.
  static PythonError fetch();

  /// The exception object and the traceback that it had when it was caught (may be null).
  struct Raised {
    pybind11::object value;
    pybind11::object traceback;
    /// Sets the exception again. REQUIRES: the GIL.
    void restore() const;
  };

  /// `ValueError: the message`.
  const char* what() const noexcept override { return text_->c_str(); }
  /// Sets the exception again. REQUIRES: the GIL.
  void restore() const;
  /// Moves the exception out of this object and all copies of it; from then on they restore a RuntimeError
  /// with the text. Null if it was taken before. REQUIRES: the GIL.
  Raised take() const;
  /// Adds a note to the exception, where Python has notes (from 3.11 on). REQUIRES: the GIL.
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

/// A KeyboardInterrupt, SystemExit or another exception that is not the failure of a row. Not a
/// std::exception, so that `on_error="skip"` lets it pass. In a consumer's thread it is an interrupt of the
/// consumer's call.
struct PythonInterrupt {
  PythonError error;
};

/// A message as a str; bytes that are not UTF-8, such as those of a file's name, become `\xff`. REQUIRES: the
/// GIL.
pybind11::object text_to_python(const char* text);
/// Sets an exception of `type` with that message. REQUIRES: the GIL.
void set_error(PyObject* type, const char* message);

/// Throws `error`, as a PythonInterrupt if it is one. REQUIRES: the GIL.
[[noreturn]] void throw_python(PythonError error);
/// Throws the Python exception that is set. REQUIRES: the GIL.
[[noreturn]] void throw_python();

/// Throws the Python exception that is set, which a callable has raised, with a note that it was raised by
/// `where`, such as `map(parse): element 7`. A StopIteration becomes a RuntimeError, because it would end an
/// unrelated loop. REQUIRES: the GIL.
[[noreturn]] void throw_from_callable(const std::string& op, const std::string& name,
                                      const std::string& where);

}  // namespace torch_distinput
