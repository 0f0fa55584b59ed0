// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>

#include "bindings/tree_spec.h"
#include "torch_distinput/function.h"
#include "torch_distinput/spec.h"

/// \file
/// Python callables as functions and sources of the library. They may be called and dropped on any thread,
/// without the GIL; each call takes it once, for all its elements. Exceptions come out as PythonError. Making
/// them needs the GIL.

namespace torch_distinput {

/// `callable`, called with a tuple element's parts as arguments, else with the element. `op` names it in
/// messages.
FunctionPtr make_python_function(py::object callable, const std::string& op,
                                 const std::optional<ElementSpec>& declared = {});

/// `callable()` gives an iterable, anew for each iterator. A generator is closed when its iterator is dropped
/// midway.
std::shared_ptr<const GeneratorSource> make_python_generator(py::object callable, Lists lists,
                                                             const std::optional<ElementSpec>& declared,
                                                             std::string name);

/// `rows(positions)` gives a sequence of elements for a list of ints below `size`. Lists in elements are
/// structure.
std::shared_ptr<const RowSource> make_python_rows(py::object rows, std::int64_t size, std::string name);

/// What messages call `callable`.
std::string callable_name(py::handle callable);

}  // namespace torch_distinput
