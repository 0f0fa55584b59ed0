// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "torch_distinput/element.h"

/// \file
/// Strings as Python values and back. Everything here needs the GIL.

namespace torch_distinput {

/// A str or bytes, or nested lists of them by the column's dims. Throws c10::ValueError for text that is not
/// utf-8; its words go on after the leaf's name: "has in row 3 a string that is not utf-8, ...".
pybind11::object strings_to_python(const Bytes& strings);

/// A str, a bytes, or nested lists of either. Throws c10::TypeError, and c10::ValueError for a str that utf-8
/// cannot hold; the words go on after the leaf's name.
Bytes strings_from_python(PyObject* value);

}  // namespace torch_distinput
