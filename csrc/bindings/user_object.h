// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "bindings/interpreter/py_ref.h"
#include "torch_distinput/node.h"

/// \file
/// The user's objects that pipelines refer to, as Python's garbage collector sees them.
///
/// Nodes are shared by handles and threads without Python knowing. The collector would take each of their
/// references to a callable for one from outside, which keeps alive all that the callable refers to:
/// `self.ds = ds.map(self.augment)` would never be freed. So a callable lies in a *box*, a Python object:
///
/// - C++ has one reference to the box, however many nodes share it.
/// - A Python handle (dataset, distributed dataset, iterator) has a reference of its own to the box of each
///   callable that its pipelines may call, and reports these references.
/// - While a box has such handles, it reports C++'s reference as one to itself: whatever C++ does with the
///   callable it does for one of them. The box is garbage when all of them are. One without handles (of a
///   dataset that no Python object stands for) reports nothing, so C++ keeps it alive.
/// - What calls leave with C++ (a generator that runs, a dataset that was returned) lies in boxes *below*
/// that
///   of the callable, which reports C++'s references to them in their place.
///
/// A box that the collector clears is empty: later calls raise. Only threads that are about to be stopped can
/// make them. Everything here is guarded by the GIL.

namespace torch_distinput {

namespace py = pybind11;

class Box;
class CodeReferences;

/// A user's Python object that C++ refers to. Copies share the reference, and any thread may copy and drop
/// it.
class UserObject {
 public:
  explicit UserObject(py::object object);
  /// `object` comes from a call of `maker`.
  UserObject(py::object object, const UserObject& maker);

  /// Throws FailedPreconditionError if the collector has cleared it.
  py::object get() const;
  /// Null if the collector has cleared it.
  py::object find() const;
  Box& box() const noexcept { return *box_; }

 private:
  friend NodePtr keep_code(NodePtr node, const UserObject* maker);
  UserObject(py::object object, CodeReferences references, Box* maker);

  PyRef reference_;
  Box* box_;
};

/// User's code that is written in Python.
class PythonCode {
 public:
  virtual const UserObject& object() const = 0;

 protected:
  ~PythonCode() = default;
};

/// The references that a Python handle has to what its pipelines may call.
class CodeReferences {
 public:
  CodeReferences() = default;
  explicit CodeReferences(std::vector<NodePtr> pipelines);
  CodeReferences(CodeReferences&&) noexcept = default;
  CodeReferences& operator=(CodeReferences&&) = delete;
  ~CodeReferences() { clear(); }

  bool empty() const noexcept { return boxes_.empty(); }
  int traverse(visitproc visit, void* arg) const;
  void clear() noexcept;

 private:
  struct Reference {
    py::object object;
    Box* box;
  };
  std::vector<Reference> boxes_;
};

/// `node`, which a call of `maker` returned, in a pointer that keeps what the node may call. `maker` may be
/// null: then the collector does not see it.
NodePtr keep_code(NodePtr node, const UserObject* maker);

void bind_user_objects(py::module_& module);

}  // namespace torch_distinput
