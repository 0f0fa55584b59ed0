// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace torch_distinput {

/// A reference to a Python object that any thread may copy and drop, with or without the GIL. Dropped while the
/// interpreter shuts down, the object is leaked.
using PyRef = std::shared_ptr<PyObject>;

/// REQUIRES: the GIL.
PyRef share(pybind11::object object);

}  // namespace torch_distinput
