// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace torch_distinput {

/// A reference to a Python object that any thread may copy and drop. Dropped by a thread without the GIL, the
/// object is let go of when the next thread takes the GIL in here, or by the main thread: rows that hold
/// arrays of numpy must not fight for the GIL one by one. Dropped while the interpreter shuts down, it is
/// leaked.
using PyRef = std::shared_ptr<PyObject>;

/// REQUIRES: the GIL.
PyRef share(pybind11::object object);

/// Lets go of what was dropped without the GIL. REQUIRES: the GIL.
void release_dropped() noexcept;

}  // namespace torch_distinput
