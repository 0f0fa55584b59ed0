// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <string>

#include "torch_distinput/element.h"

/// \file
/// Tensors of Python as leaves and back: dense, ragged and sparse ones. Everything here needs the GIL.

namespace torch_distinput {

/// Looks up the functions of torch that are needed below; called once, while the module loads.
void load_tensor_types();

/// Throws c10::TypeError: the leaf "is `what`, which cannot be a leaf; ...".
[[noreturn]] void refuse_leaf(const std::string& what);

/// A dense tensor, a jagged nested tensor or a COO tensor, in host memory. Throws c10::TypeError for other
/// tensors; its words go on after the leaf's name. REQUIRES: `value` is a tensor.
Leaf tensor_leaf_from_python(PyObject* value);

pybind11::object dense_to_python(at::Tensor&& tensor);
/// A jagged nested tensor.
pybind11::object ragged_to_python(const Ragged& ragged);
/// A COO tensor.
pybind11::object sparse_to_python(Sparse&& sparse);

}  // namespace torch_distinput
