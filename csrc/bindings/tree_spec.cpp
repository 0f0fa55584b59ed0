// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/tree_spec.h"

#include <unordered_map>

#include <c10/util/Exception.h>

#include "bindings/interpreter/py_ref.h"
#include "bindings/interpreter/python_error.h"
#include "bindings/interpreter/state_guard.h"

namespace torch_distinput {
namespace {

using TreeKind = Structure::Kind;

bool is_named_tuple(PyObject* value) {
  if (!PyTuple_Check(value) || PyTuple_CheckExact(value)) return false;
  const auto fields = py::getattr(value, "_fields", py::none());
  return PyTuple_Check(fields.ptr()) && PyTuple_GET_SIZE(fields.ptr()) == PyTuple_GET_SIZE(value);
}

bool is_leaf(PyObject* value, Lists lists) {
  if (value == Py_None || PyDict_Check(value) || PyTuple_Check(value)) return false;
  return lists == Lists::kLeaf || !PyList_Check(value);
}

bool has_kind(PyObject* value, TreeKind kind) {
  switch (kind) {
    case TreeKind::kTuple:
      return PyTuple_CheckExact(value) || (PyTuple_Check(value) && !is_named_tuple(value));
    case TreeKind::kList:
      return PyList_Check(value);
    case TreeKind::kDict:
      return PyDict_Check(value);
    case TreeKind::kNone:
      return value == Py_None;
    default:
      return false;
  }
}

std::string utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* characters = PyUnicode_AsUTF8AndSize(text, &size);
  if (characters == nullptr) throw_python();
  return {characters, static_cast<std::size_t>(size)};
}

/// Flattens a value whose structure is not known.
class Flattener {
 public:
  Flattener(Lists lists, const std::string& where, PyLeaves& leaves)
      : lists_(lists), where_(where), leaves_(leaves) {}

  StructurePtr visit(PyObject* value) {
    if (value == Py_None) return Structure::none();
    if (is_leaf(value, lists_)) {
      leaves_.push_back(value);
      return Structure::leaf();
    }
    TORCH_CHECK_TYPE(++depth_ < kMaxDepth, where_, ": the value is nested more than ", kMaxDepth, " deep.");
    StructurePtr structure = PyDict_Check(value) ? visit_dict(value) : visit_sequence(value);
    --depth_;
    return structure;
  }

 private:
  static constexpr int kMaxDepth = 100;

  StructurePtr visit_dict(PyObject* dict) {
    std::vector<std::string> keys;
    std::vector<StructurePtr> children;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
      TORCH_CHECK_TYPE(PyUnicode_Check(key), where_, ": keys of a dict must be str, but found a key of type ",
                       Py_TYPE(key)->tp_name, ".");
      keys.push_back(utf8(key));
      children.push_back(visit(value));
    }
    return Structure::dict(std::move(keys), std::move(children));
  }

  StructurePtr visit_sequence(PyObject* sequence) {
    std::vector<StructurePtr> children;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
      children.push_back(visit(PySequence_Fast_GET_ITEM(sequence, i)));
    }
    if (PyList_Check(sequence)) return Structure::list(std::move(children));
    if (!is_named_tuple(sequence)) return Structure::tuple(std::move(children));
    std::vector<std::string> fields;
    for (const auto field : py::handle(sequence).attr("_fields")) fields.push_back(utf8(field.ptr()));
    const auto type = py::type::of(sequence);
    return Structure::named_tuple(py::str(type.attr("__name__")), std::move(fields), std::move(children),
                                  share(type));
  }

  Lists lists_;
  const std::string& where_;
  PyLeaves& leaves_;
  int depth_ = 0;
};

py::object checked(PyObject* made) {
  if (made == nullptr) throw_python();
  return py::reinterpret_steal<py::object>(made);
}

}  // namespace

const TreeSpec& TreeSpec::of(const StructurePtr& structure) {
  // Never destroyed: it holds Python objects, and the interpreter ends before static objects are destroyed.
  static auto* const known = new std::unordered_map<const Structure*, std::unique_ptr<const TreeSpec>>;
  {
    const StateGuard guard;
    const auto found = known->find(structure.get());
    if (found != known->end()) return *found->second;
  }
  std::unique_ptr<const TreeSpec> made(new TreeSpec(structure));
  const StateGuard guard;
  return *known->try_emplace(structure.get(), std::move(made))
              .first->second;  // another thread may have been first
}

TreeSpec::TreeSpec(StructurePtr structure)
    : structure_(std::move(structure)), holds_none_(structure_->kind() == TreeKind::kNone) {
  for (const auto& child : structure_->children()) {
    children_.push_back(&TreeSpec::of(child));
    holds_none_ = holds_none_ || children_.back()->holds_none();
  }
  for (const auto& key : structure_->keys()) {
    keys_.push_back(checked(PyUnicode_InternFromString(key.c_str())));
  }
}

py::object TreeSpec::assemble(c10::SmallVectorImpl<py::object>& leaves, const py::object& none) const {
  py::object* next = leaves.data();
  return assemble(next, none);
}

py::object TreeSpec::assemble(py::object*& next, const py::object& none) const {
  switch (structure_->kind()) {
    case TreeKind::kLeaf:
      return std::move(*next++);
    case TreeKind::kNone:
      return none;
    case TreeKind::kDict: {
      py::object dict = checked(PyDict_New());
      for (std::size_t i = 0; i < children_.size(); ++i) {
        const py::object part = children_[i]->assemble(next, none);
        if (PyDict_SetItem(dict.ptr(), keys_[i].ptr(), part.ptr()) != 0) throw_python();
      }
      return dict;
    }
    case TreeKind::kList: {
      py::object list = checked(PyList_New(static_cast<Py_ssize_t>(children_.size())));
      for (std::size_t i = 0; i < children_.size(); ++i) {
        PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i),
                        children_[i]->assemble(next, none).release().ptr());
      }
      return list;
    }
    default: {
      py::object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(children_.size())));
      for (std::size_t i = 0; i < children_.size(); ++i) {
        PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i),
                         children_[i]->assemble(next, none).release().ptr());
      }
      if (structure_->kind() == TreeKind::kTuple) return tuple;
      // tuple.__new__, as a named tuple's own `_make`: the class may have a constructor with other arguments.
      auto* const type = static_cast<PyTypeObject*>(structure_->type().get());
      const py::tuple arguments = py::make_tuple(tuple);
      return checked(PyTuple_Type.tp_new(type, arguments.ptr(), nullptr));
    }
  }
}

bool TreeSpec::match(PyObject* value, Lists lists, PyLeaves& leaves) const {
  const TreeKind kind = structure_->kind();
  if (kind == TreeKind::kLeaf) {
    if (!is_leaf(value, lists)) return false;
    leaves.push_back(value);
    return true;
  }
  if (kind == TreeKind::kNamedTuple ? Py_TYPE(value) != structure_->type().get() : !has_kind(value, kind))
    return false;
  if (kind == TreeKind::kNone) return true;
  if (kind == TreeKind::kDict) {
    if (PyDict_GET_SIZE(value) != static_cast<Py_ssize_t>(children_.size())) return false;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      PyObject* const part = PyDict_GetItemWithError(value, keys_[i].ptr());
      if (part == nullptr || !children_[i]->match(part, lists, leaves)) return false;
    }
    return true;
  }
  if (PySequence_Fast_GET_SIZE(value) != static_cast<Py_ssize_t>(children_.size())) return false;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!children_[i]->match(PySequence_Fast_GET_ITEM(value, i), lists, leaves)) return false;
  }
  return true;
}

Flat flatten(py::handle value, Lists lists, const std::string& where) {
  Flat flat;
  flat.structure = Flattener(lists, where, flat.leaves).visit(value.ptr());
  return flat;
}

}  // namespace torch_distinput
