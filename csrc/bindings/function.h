// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <pybind11/pybind11.h>

#include "bindings/tree_spec.h"
#include "torch_distinput/element.h"
#include "torch_distinput/function.h"
#include "torch_distinput/row_cost.h"
#include "torch_distinput/spec.h"

/// \file
/// Python callables as functions and sources of the library. They may be called and destroyed on any thread
/// without the GIL; a call takes it once for all its elements. Python exceptions are thrown as PythonError.
/// The functions below need the GIL and throw c10::TypeError for an object that cannot be called.

namespace torch_distinput {

/// `callable`, called with the parts of a tuple element as arguments, else with the element. `op` and the
/// callable's name begin messages. `declared`: the type of the results.
FunctionPtr make_python_function(py::object callable, const std::string& op,
                                 const std::optional<ElementSpec>& declared = {});

/// `callable`, called with a list of elements; it returns a sequence of as many results.
FunctionPtr make_python_block_function(py::object callable, const std::string& op);

/// A source whose `callable()` returns an iterable, anew for each iterator. A Python generator is closed when
/// its iterator is destroyed before the end.
std::shared_ptr<const GeneratorSource> make_python_generator(py::object callable, Lists lists,
                                                             const std::optional<ElementSpec>& declared,
                                                             std::string name);

/// A source whose `rows(positions)` returns a sequence of elements for a list of ints below `size`. Lists in
/// elements are structure.
std::shared_ptr<const RowSource> make_python_rows(py::object rows, std::int64_t size, std::string name);

/// `cost`, a tensor, a str or a callable, as a `RowCost` of `op`.
RowCost row_cost_from_python(const py::object& cost, const std::string& op);

/// The arguments of a callable for `element`, whose leaves are moved from: the parts of a tuple, else itself.
py::tuple arguments_of(Element&& element);

/// The name of `callable` in messages: its `__name__`, else its class.
std::string callable_name(py::handle callable);

}  // namespace torch_distinput
