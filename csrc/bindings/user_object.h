// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <pybind11/pybind11.h>

#include "bindings/interpreter/py_ref.h"
#include "torch_distinput/node.h"

/// \file
/// Lets Python's garbage collector see the users' objects that pipelines refer to.
///
/// Nodes are shared by handles and threads that Python does not know. The collector would take each of
/// their references to a callable for one from outside, which keeps alive all that the callable refers to:
/// `self.ds = ds.map(self.augment)` would never be freed. So a callable lies in a *box*, a Python object:
///
/// - C++ has one reference to the box, however many nodes share it.
/// - A Python handle (dataset, distributed dataset, iterator) has a reference of its own to the box of each
///   callable that its pipelines may call, and reports these references.
/// - While a box has such handles, it reports C++'s reference as one to itself, because C++ uses the
///   callable only for these handles. The box is garbage when all of them are. A box without handles (of a
///   dataset that has no Python object) reports nothing, so C++ keeps it alive.
/// - Objects that a call returns to C++ (a running generator, a dataset) lie in boxes *below* the box of the
///   callable, which reports C++'s references to them.
///
/// Boxes are emptied before the collector clears anything, and later calls throw. Only threads that are about
/// to be stopped can make such calls; what they have taken out before, they keep. What boxes share is guarded
/// by the GIL, or by StateGuard.

namespace torch_distinput {

namespace py = pybind11;

class Box;
class CodeReferences;

/// A user's Python object that C++ refers to. Copies share the reference; any thread may copy and destroy it.
/// Other members need the GIL.
class UserObject {
 public:
  /// Puts `object` in a box.
  explicit UserObject(py::object object);
  /// As above, where a call of `maker` returned `object`.
  UserObject(py::object object, const UserObject& maker);

  /// The object. Throws FailedPreconditionError if the collector has cleared it.
  py::object get() const;
  /// The object; null if the collector has cleared it.
  py::object find() const;
  /// The box, which lives as long as this object.
  Box& box() const noexcept { return *box_; }

 private:
  friend NodePtr keep_code(NodePtr node, const UserObject* maker);
  UserObject(py::object object, CodeReferences references, Box* maker);

  PyRef reference_;
  Box* box_;
};

/// Users' code that is written in Python.
class PythonCode {
 public:
  /// The callable.
  virtual const UserObject& object() const = 0;

 protected:
  ~PythonCode() = default;
};

/// The references that a Python handle has to the boxes of the callables that its pipelines may call. Needs
/// the GIL.
class CodeReferences {
 public:
  CodeReferences() = default;
  /// References to the users' code of all nodes of `pipelines`.
  explicit CodeReferences(std::vector<NodePtr> pipelines);
  CodeReferences(CodeReferences&&) noexcept = default;
  CodeReferences& operator=(CodeReferences&&) = delete;
  ~CodeReferences() { clear(); }

  bool empty() const noexcept { return boxes_.empty(); }
  /// For Python's garbage collector.
  int traverse(visitproc visit, void* arg) const;
  void clear() noexcept;

 private:
  struct Reference {
    py::object object;
    Box* box;
  };
  std::vector<Reference> boxes_;
};

/// `node`, which a call of `maker` returned, in a pointer that keeps the callables of its pipeline alive.
/// Where `maker` is null, the collector does not see these references.
NodePtr keep_code(NodePtr node, const UserObject* maker);

/// Binds the Python class of boxes; called while the module loads.
void bind_user_objects(py::module_& module);

}  // namespace torch_distinput
