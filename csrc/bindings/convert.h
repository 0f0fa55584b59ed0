// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <pybind11/pybind11.h>

#include "bindings/leaves/leaf.h"
#include "bindings/tree_spec.h"
#include "bindings/user_object.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"
#include "torch_distinput/state.h"
#include "torch_distinput/stats.h"

/// \file
/// Converts values of the library to Python values and back. Everything here needs the GIL.

namespace torch_distinput {

/// The nested Python value of `element`, whose leaves are moved from. Throws c10::TypeError or
/// c10::ValueError naming a leaf that has no Python form.
py::object element_to_python(Element&& element);

/// One Python value for several elements of one structure: each leaf is what `wrap` returns for the tuple of
/// the elements' leaves. The leaves are moved from; otherwise as `element_to_python`. REQUIRES: at least one
/// element.
py::object elements_to_python(std::span<Element> elements, const py::object& wrap);

/// Reads Python values as elements, on any thread. Remembers the structure of the first value: values of the
/// same structure are read without building it again, and the keys of a dict keep the order of the first one.
class ElementReader {
 public:
  /// `where` begins the messages: "map(decode)". Values are expected to have the structure of `declared`; a
  /// list where it has a leaf is then a leaf.
  ElementReader(std::string where, Lists lists, Objects objects, std::optional<ElementSpec> declared = {});

  /// `maker`: the callable that returned the value; null: none. `row`: what the value is for, in messages,
  /// such as `element 7`; empty: nothing. Throws c10::TypeError or c10::ValueError naming a leaf that cannot
  /// be read.
  Element read(py::handle value, const UserObject* maker = nullptr, const std::string& row = {}) const;

 private:
  /// As declared, or as the first value.
  struct Known {
    ElementSpec type;
    const TreeSpec* tree;
  };
  /// Null before the first value.
  const Known* known() const;
  void learn(const Element& first) const;
  Leaf read_leaf(PyObject* value, const UserObject* maker, const LeafSpec* like) const;
  std::string where(const std::string& row) const { return row.empty() ? where_ : where_ + ": " + row; }

  std::string where_;
  Lists lists_;
  Objects objects_;
  Lists lists_in_known_;
  mutable std::shared_ptr<const Known> known_;  // set once
};

/// Reads a nested structure of spec objects. `where` begins the messages. Throws c10::TypeError for other
/// objects.
ElementSpec spec_from_python(py::handle value, const std::string& where);
py::object spec_to_python(const ElementSpec& spec);
/// `(None, 3)` as dims; None as unknown rank. Throws c10::TypeError for other objects, c10::ValueError for
/// negative sizes.
std::optional<Dims> shape_from_python(const py::object& shape, const std::string& where);
py::object shape_to_python(const std::optional<Dims>& shape);

/// A state as dicts, lists, ints, floats, strings, bools and None.
py::object state_to_python(const State& state);
/// Throws c10::TypeError naming the entry for any other object, c10::ValueError for one that is nested too
/// deep, too large or out of range.
State state_from_python(py::handle value);

/// The package's `Stats`, with times in seconds and the means of the queues.
py::object stats_to_python(const Stats& stats);

}  // namespace torch_distinput
