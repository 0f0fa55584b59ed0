// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <pybind11/pybind11.h>

namespace torch_distinput {

/// A reference to a Python object that any thread may copy and destroy. Where the last one is destroyed
/// without the GIL, the object is released when the next thread of the library takes the GIL, or by the main
/// thread: rows that hold numpy arrays must not take the GIL one by one. Where it is destroyed while the
/// interpreter shuts down, the object is leaked.
using PyRef = std::shared_ptr<PyObject>;

/// A reference to `object`. REQUIRES: the GIL.
PyRef share(pybind11::object object);

/// Releases the objects whose references were destroyed without the GIL. REQUIRES: the GIL.
void release_dropped() noexcept;

}  // namespace torch_distinput
