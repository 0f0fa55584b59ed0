// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <pybind11/pybind11.h>

#include "bindings/interpreter/interpreter.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {

namespace py = pybind11;

/// Holds the GIL while it lives, on any thread. A thread of the library keeps its Python thread state until
/// it ends, so that `threading.local` values of callables survive from call to call.
///
/// The constructor throws FailedPreconditionError while the interpreter shuts down. Where `is_left_behind`,
/// it throws on threads of the library, and other threads sleep there until the process ends.
class GilScope {
 public:
  GilScope();
  ~GilScope();
  GilScope(const GilScope&) = delete;
  GilScope& operator=(const GilScope&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Releases the GIL while it lives, so that other Python threads run. REQUIRES: the GIL.
class GilRelease {
 public:
  GilRelease() : thread_(PyEval_SaveThread()) {}
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* thread_;
};

/// For calls that may wait: releases the GIL while it lives. Ctrl-C ends waits of the library with a
/// KeyboardInterrupt; where the library itself has called the Python code that makes this call, what ends the
/// waits of that caller ends these, as a GeneratorExit where it is no exception of Python. REQUIRES: the GIL.
class WaitScope {
 public:
  WaitScope();

 private:
  GilRelease release_;
  InterruptScope interrupt_;
};

/// Calls `body`, which may wait, run callables or take locks, without the GIL.
template <class Body>
auto without_gil(Body&& body) {
  const WaitScope wait;
  return body();
}
/// The same for a bound function, whose arguments and result are converted with the GIL.
using WithoutGil = py::call_guard<WaitScope>;

/// How often the library has taken the GIL in this process.
std::int64_t gil_turns() noexcept;

/// Threads of the library in this process that have run Python code and have not ended.
int python_threads() noexcept;

/// Whether another thread is inside Python code that the library has called.
bool others_run_python() noexcept;

/// Sleeps until the process ends where `is_left_behind`: for daemon threads where a call begins or ends.
/// Python would end them the next time they take the GIL, and an exception would only be printed. REQUIRES:
/// the GIL.
void park_daemon() noexcept;

}  // namespace torch_distinput
