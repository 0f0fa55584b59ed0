// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "torch_distinput/structure.h"

namespace torch_distinput {

namespace py = pybind11;

/// Leaves of a nested Python value, depth first. Borrowed: they live as long as the value is not changed.
using PyLeaves = c10::SmallVector<PyObject*, 8>;

/// How lists are read: as a part of the structure, or as a leaf that stands for one tensor.
enum class Lists { kStructure, kLeaf };

/// The Python objects of a structure (interned keys, classes of named tuples), made once per structure and
/// kept, as structures are. All members need the GIL.
class TreeSpec {
 public:
  static const TreeSpec& of(const StructurePtr& structure);

  const StructurePtr& structure() const noexcept { return structure_; }
  /// Whether there are places that hold None.
  bool holds_none() const noexcept { return holds_none_; }
  /// The nested Python value that holds `leaves`; moves them. `none` stands in the places that hold None.
  py::object assemble(c10::SmallVectorImpl<py::object>& leaves, const py::object& none = py::none()) const;
  /// Whether `value` has this structure; its leaves are appended. Dicts may have any order of keys.
  bool match(PyObject* value, Lists lists, PyLeaves& leaves) const;

 private:
  explicit TreeSpec(StructurePtr structure);
  py::object assemble(py::object*& next, const py::object& none) const;

  StructurePtr structure_;
  std::vector<const TreeSpec*> children_;
  std::vector<py::object> keys_;
  bool holds_none_ = false;
};

/// A nested Python value taken apart.
struct Flat {
  StructurePtr structure;
  PyLeaves leaves;
};

/// Takes apart dicts, tuples, named tuples, None and, if asked, lists; anything else is a leaf. Throws
/// c10::TypeError for a dict key that is not a str. `where` names the op in messages. REQUIRES: the GIL.
Flat flatten(py::handle value, Lists lists, const std::string& where);

}  // namespace torch_distinput
