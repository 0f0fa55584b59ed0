// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <pybind11/pybind11.h>

namespace torch_distinput {

namespace py = pybind11;

/// The object behind a holder that has `traverse` and `clear` for the garbage collector.
template <class T>
T& collectable(std::unique_ptr<T>& holder) {
  return *holder;
}
/// Lets Python's garbage collector traverse and clear the instances of a class that is bound with this
/// `Holder`.
template <class Holder>
py::custom_type_setup collected() {
  static constexpr auto kInside = [](PyObject* self) -> auto& {
    auto* const instance = reinterpret_cast<py::detail::instance*>(self);
    return collectable(instance->get_value_and_holder().template holder<Holder>());
  };
  return py::custom_type_setup([](PyHeapTypeObject* heap_type) {
    PyTypeObject& type = heap_type->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(self));
      return py::detail::is_holder_constructed(self) ? kInside(self).traverse(visit, arg) : 0;
    };
    type.tp_clear = [](PyObject* self) {
      if (py::detail::is_holder_constructed(self)) kInside(self).clear();
      return 0;
    };
  });
}

}  // namespace torch_distinput
