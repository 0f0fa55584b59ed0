// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// What becomes of a Python object that is no tensor, array, number, string or list of them.
enum class Objects { kRefuse, kCarry };

/// Looks up what is needed below; called once, while the module loads.
void load_leaf_types();

/// A new Python object for `leaf`, which is moved from. Throws c10::ValueError for text that is not utf-8,
/// whose words go on after the leaf's name. REQUIRES: the GIL.
pybind11::object leaf_to_python(Leaf& leaf);

/// The leaf that a Python value stands for: dense, jagged and COO tensors as they are, numpy arrays without a
/// copy where torch can share them, numbers as torch.tensor makes them, strings, lists of all these stacked,
/// datasets, and other objects as `objects` says. `like` tells what an empty list is; null: nothing is known.
/// Throws c10::TypeError or c10::ValueError, whose words go on after the leaf's name. REQUIRES: the GIL.
Leaf leaf_from_python(PyObject* value, Objects objects, const LeafSpec* like);

}  // namespace torch_distinput
