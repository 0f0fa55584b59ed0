// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

/// \file
/// Numbers of Python and arrays of numpy as dense tensors. Everything here needs the GIL. What throws
/// c10::TypeError uses words that go on after the leaf's name.

namespace torch_distinput {

/// Looks up the classes and functions of torch and numpy that are needed below; called once, while the module
/// loads.
void load_number_types();

/// A number of Python. numpy.float64 is a float too, but keeps its dtype as the other scalars of numpy do.
bool is_number(PyObject* value);
/// As torch.tensor makes it.
at::Tensor from_number(PyObject* number);
/// Numbers in nested lists, as torch.tensor makes them.
at::Tensor from_numbers(PyObject* sequence);

bool is_array(PyObject* value);
bool is_numpy_scalar(PyObject* value);
/// Without a copy where torch can share the memory.
at::Tensor from_array(PyObject* array);
/// The scalar keeps its dtype.
at::Tensor from_numpy_scalar(PyObject* scalar);

}  // namespace torch_distinput
