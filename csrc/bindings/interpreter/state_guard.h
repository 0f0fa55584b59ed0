// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <pybind11/pybind11.h>
#ifdef Py_GIL_DISABLED
#include <pybind11/critical_section.h>
#endif

/// \file
/// What keeps threads apart in builds of Python that have no GIL. With a GIL all of it is nothing.

namespace torch_distinput {

/// Keeps other threads out of the state that the bindings share between objects, while it lives. Meant for a
/// few instructions: no Python code may run and no reference be dropped meanwhile, because both may come back
/// here. REQUIRES: the GIL, which without one means a thread that Python knows.
class StateGuard {
 public:
#ifdef Py_GIL_DISABLED
  StateGuard() noexcept;
  ~StateGuard();
#else
  StateGuard() noexcept {}
  ~StateGuard() {}
#endif
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;
};

/// A method of a bound class, to be called by one thread at a time: another one comes in only where the
/// method releases the GIL, or would.
#ifdef Py_GIL_DISABLED
template <class Bound, class Result, class... Arguments>
auto one_at_a_time(Result (Bound::*method)(Arguments...)) {
  return [method](const pybind11::object& self, Arguments... arguments) -> Result {
    const pybind11::scoped_critical_section alone(self);
    return (self.cast<Bound&>().*method)(std::forward<Arguments>(arguments)...);
  };
}
template <class Bound, class Result, class... Arguments>
auto one_at_a_time(Result (Bound::*method)(Arguments...) const) {
  return [method](const pybind11::object& self, Arguments... arguments) -> Result {
    const pybind11::scoped_critical_section alone(self);
    return (self.cast<const Bound&>().*method)(std::forward<Arguments>(arguments)...);
  };
}
#else
template <class Method>
constexpr Method one_at_a_time(Method method) noexcept {
  return method;
}
#endif

}  // namespace torch_distinput
