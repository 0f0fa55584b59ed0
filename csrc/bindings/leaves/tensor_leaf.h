// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include "torch_distinput/element.h"

/// \file
/// Converts Python tensors (dense, ragged, sparse) to leaves and back. Everything here needs the GIL.

namespace torch_distinput {

/// Looks up torch's functions that are needed below; called once, while the module loads.
void load_tensor_types();

/// Throws c10::TypeError with the message "is `what`, which cannot be a leaf; ...", which continues the
/// leaf's name.
[[noreturn]] void refuse_leaf(const std::string& what);

/// Reads a dense tensor, a jagged nested tensor or a COO tensor, in host memory; shares its memory. Throws
/// c10::TypeError for other tensors; the message continues the leaf's name. REQUIRES: `value` is a tensor.
Leaf tensor_leaf_from_python(PyObject* value);

/// A dense or sparse tensor.
pybind11::object dense_to_python(at::Tensor&& tensor);
/// A jagged nested tensor.
pybind11::object ragged_to_python(const Ragged& ragged);
/// A COO tensor.
pybind11::object sparse_to_python(Sparse&& sparse);

}  // namespace torch_distinput
