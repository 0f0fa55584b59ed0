// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "torch_distinput/element.h"

/// \file
/// Converts strings to Python values and back. Everything here needs the GIL.

namespace torch_distinput {

/// A str or bytes, or nested lists of them with the column's dims. Throws c10::ValueError for text that is
/// not UTF-8; the message continues the leaf's name: "is not utf-8 in string 3; ...".
pybind11::object strings_to_python(const Bytes& strings);

/// Reads a str, a bytes, or nested lists of either. Throws c10::TypeError for lists of unequal lengths or of
/// mixed types, and c10::ValueError for a str that UTF-8 cannot hold; the message continues the leaf's name.
Bytes strings_from_python(PyObject* value);

}  // namespace torch_distinput
