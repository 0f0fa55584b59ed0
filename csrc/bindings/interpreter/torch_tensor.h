// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

/// \file
/// torch's Python tensors, as torch/csrc/autograd/python_variable.h has them. That header takes as long to
/// compile as a whole room, so that only the source of this one includes it. All functions are called with
/// the GIL.

namespace torch_distinput {

/// Whether `value` is a torch.Tensor or of a class derived from it. Throws what `__instancecheck__` raises.
bool is_tensor(PyObject* value);

/// Whether `value` is a torch.Tensor, and of no class derived from it.
bool is_plain_tensor(PyObject* value) noexcept;

/// The tensor in `value`, for which `is_tensor` holds; it lives as long as `value`.
const at::Tensor& unwrap_tensor(PyObject* value) noexcept;

/// The Python object of `tensor`: the one that it has, else a new one. Throws the error that Python raised.
pybind11::object wrap_tensor(at::Tensor tensor);

}  // namespace torch_distinput
