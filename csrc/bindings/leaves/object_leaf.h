// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "torch_distinput/element.h"

/// \file
/// Objects that are carried as they are. Everything here needs the GIL.

namespace torch_distinput {

/// The object, or nested lists by the column's dims.
pybind11::object objects_to_python(const Opaque& opaque);

/// One object, or those in nested lists of equal lengths. Throws c10::TypeError for parts of lists that must
/// not lie in a column; its words go on after the leaf's name.
Opaque objects_from_python(PyObject* value);

}  // namespace torch_distinput
