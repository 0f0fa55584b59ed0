// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "torch_distinput/element.h"

namespace torch_distinput {

/// Looks up the classes and functions of torch and numpy that are needed below; called once, while the module
/// loads.
void load_leaf_types();

/// A new Python object for `leaf`, which is moved from. Throws c10::TypeError for a kind that has no Python
/// form. REQUIRES: the GIL.
pybind11::object leaf_to_python(Leaf& leaf);

/// What a Python leaf stands for: datasets, tensors as they are, numpy arrays without a copy where torch can
/// share them, numbers as torch.tensor makes them, lists of all these stacked. Throws c10::TypeError, whose
/// text goes on after the leaf's name: "is a str, which is not supported yet; ...". REQUIRES: the GIL.
Leaf leaf_from_python(PyObject* value);

}  // namespace torch_distinput
