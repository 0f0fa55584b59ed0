// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

/// \file
/// Python numbers and numpy arrays as dense tensors. Everything here needs the GIL. Throws c10::TypeError for
/// a value that cannot be a leaf; the message continues the leaf's name.

namespace torch_distinput {

/// Looks up the classes and functions of torch and numpy that are needed below; called once, while the module
/// loads.
void load_number_types();

/// Whether `value` is a Python number. A numpy.float64, although a subclass of float, is a numpy scalar: it
/// keeps its dtype.
bool is_number(PyObject* value);
/// The scalar that torch.tensor makes.
at::Tensor from_number(PyObject* number);
/// Numbers in nested lists, as torch.tensor makes them.
at::Tensor from_numbers(PyObject* sequence);

/// Whether `value` is a numpy array or a numpy scalar; false where numpy is not installed.
bool is_array(PyObject* value);
bool is_numpy_scalar(PyObject* value);
/// The array as a tensor, without a copy where torch can share the memory.
at::Tensor from_array(PyObject* array);
/// The scalar as a tensor of its dtype.
at::Tensor from_numpy_scalar(PyObject* scalar);

}  // namespace torch_distinput
