// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// Whether a Python object that is not a tensor, array, number, string or list of these is an error or an
/// opaque leaf.
enum class Objects { kRefuse, kCarry };

/// Looks up the Python classes and functions that are needed below; called once, while the module loads.
void load_leaf_types();

/// A new Python object for `leaf`, which is moved from. Throws c10::ValueError for text that is not UTF-8;
/// the message continues the leaf's name. REQUIRES: the GIL.
pybind11::object leaf_to_python(Leaf& leaf);

/// The leaf of a Python value: dense, jagged and COO tensors as they are, numpy arrays without a copy where
/// torch can share them, numbers as torch.tensor makes them, strings, lists of all these stacked, datasets,
/// and other objects as `objects` says. `like` tells the type of an empty list; null: unknown. Throws
/// c10::TypeError or c10::ValueError; the message continues the leaf's name. REQUIRES: the GIL.
Leaf leaf_from_python(PyObject* value, Objects objects, const LeafSpec* like);

}  // namespace torch_distinput
