// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/leaves/leaf.h"
#include "bindings/tree_spec.h"
#include "bindings/user_object.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"
#include "torch_distinput/state.h"
#include "torch_distinput/stats.h"

/// \file
/// Values of the library as Python values and back. Everything here needs the GIL.

namespace torch_distinput {

/// The nested Python value of `element`, whose leaves are moved from. Throws c10::TypeError or
/// c10::ValueError naming a leaf that has no Python form.
py::object element_to_python(Element&& element);

/// One value of the structure of `elements`, which is the same in all, with `wrap` of the tuple of each
/// leaf's values. The leaves are moved from; otherwise as `element_to_python`.
py::object elements_to_python(std::span<Element> elements, const py::object& wrap);

/// Reads Python values as elements. Remembers the structure it saw last: values of the same structure are
/// read without building it again, and a dict's keys keep the order of the first one.
class ElementReader {
 public:
  /// `where` begins the messages: "map(decode)". Values are expected to look like `declared`; a list in the
  /// place of a leaf is then a leaf.
  ElementReader(std::string where, Lists lists, Objects objects, std::optional<ElementSpec> declared = {});

  /// `maker`: what the value comes from a call of; null: from none. Throws c10::TypeError or c10::ValueError
  /// naming the value that can be no leaf.
  Element read(py::handle value, const UserObject* maker = nullptr);

 private:
  Leaf read_leaf(PyObject* value, const UserObject* maker, const Structure& structure,
                 std::size_t leaf) const;

  std::string where_;
  Lists lists_;
  Objects objects_;
  std::optional<ElementSpec> type_;  // as declared, or that of the first value
  Lists lists_in_known_;
  const TreeSpec* known_ = nullptr;
};

/// A nested structure of spec objects. `where` begins the messages.
ElementSpec spec_from_python(py::handle value, const std::string& where);
py::object spec_to_python(const ElementSpec& spec);
/// `(None, 3)` as dims; None as unknown rank.
std::optional<Dims> shape_from_python(const py::object& shape, const std::string& where);
py::object shape_to_python(const std::optional<Dims>& shape);

/// Dicts, lists, ints, floats, strings, bools and None.
py::object state_to_python(const State& state);
/// Throws c10::TypeError for anything else, naming the entry.
State state_from_python(py::handle value);

py::dict stats_to_python(const Stats& stats);

}  // namespace torch_distinput
