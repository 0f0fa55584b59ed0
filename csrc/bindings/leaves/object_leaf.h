// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "torch_distinput/element.h"

/// \file
/// Python objects that the pipeline carries unchanged. Everything here needs the GIL.

namespace torch_distinput {

/// The object, or nested lists with the column's dims.
pybind11::object objects_to_python(const Opaque& opaque);

/// One object, or the objects in nested lists of equal lengths. Throws c10::TypeError for lists with parts
/// that cannot be in a column; the message continues the leaf's name.
Opaque objects_from_python(PyObject* value);

}  // namespace torch_distinput
