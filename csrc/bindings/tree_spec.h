// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <c10/util/SmallVector.h>
#include <pybind11/pybind11.h>

#include "torch_distinput/structure.h"

namespace torch_distinput {

namespace py = pybind11;

/// Leaves of a nested Python value, depth first. Borrowed references, valid while the value is not changed.
using PyLeaves = c10::SmallVector<PyObject*, 8>;

/// How lists are read: as a part of the structure, or as a leaf that stands for one tensor.
enum class Lists { kStructure, kLeaf };

/// The Python objects of a structure (interned keys, classes of named tuples), made once for each structure
/// and kept as long as the process, as structures are. All members need the GIL.
class TreeSpec {
 public:
  /// The one of `structure`; never destroyed.
  static const TreeSpec& of(const StructurePtr& structure);

  const StructurePtr& structure() const noexcept { return structure_; }
  /// Whether there are places that hold None.
  bool holds_none() const noexcept { return holds_none_; }
  /// The nested Python value that holds `leaves`, which are moved from. `none` is put in the places that hold
  /// None.
  py::object assemble(c10::SmallVectorImpl<py::object>& leaves, const py::object& none = py::none()) const;
  /// Whether `value` has this structure; appends its leaves. The keys of dicts may be in any order.
  bool match(PyObject* value, Lists lists, PyLeaves& leaves) const;

 private:
  explicit TreeSpec(StructurePtr structure);
  py::object assemble(py::object*& next, const py::object& none) const;

  StructurePtr structure_;
  std::vector<const TreeSpec*> children_;
  std::vector<py::object> keys_;
  bool holds_none_ = false;
};

/// The structure and the leaves of a nested Python value.
struct Flat {
  StructurePtr structure;
  PyLeaves leaves;
};

/// Flattens dicts, tuples, named tuples, None and, with `Lists::kStructure`, lists; anything else is a leaf.
/// Throws c10::TypeError for a dict key that is not a str and for more than 100 levels. `where` begins the
/// messages. REQUIRES: the GIL.
Flat flatten(py::handle value, Lists lists, const std::string& where);

}  // namespace torch_distinput
