// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>
#include <vector>

#include "python/user_object.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

inline std::vector<NodePtr> pipelines_of(const Dataset& dataset) { return {dataset.node()}; }
inline std::vector<NodePtr> pipelines_of(const DistributedDataset& dataset) { return dataset.pipelines(); }

/// The inside of a Python object that stands for pipelines: pybind11's holder of a `T`.
template <class T>
class PipelineHandle {
 public:
  explicit PipelineHandle(T* object) : object_(object), code_(pipelines_of(*object)) {}

  T* get() const noexcept { return object_.get(); }
  int traverse(visitproc visit, void* arg) const { return code_.traverse(visit, arg); }
  void clear() noexcept { code_.clear(); }

 private:
  std::unique_ptr<T> object_;
  CodeReferences code_;  ///< dropped first, while C++ still has its own references
};

/// What has the `traverse` and `clear` of an object.
template <class T>
T& collectable(std::unique_ptr<T>& holder) {
  return *holder;
}
template <class T>
PipelineHandle<T>& collectable(PipelineHandle<T>& holder) {
  return holder;
}

/// Makes a Python class visible to the garbage collector.
template <class Holder>
py::custom_type_setup collected() {
  static constexpr auto inside = [](PyObject* self) -> auto& {
    auto* const instance = reinterpret_cast<py::detail::instance*>(self);
    return collectable(instance->get_value_and_holder().template holder<Holder>());
  };
  return py::custom_type_setup([](PyHeapTypeObject* heap_type) {
    PyTypeObject& type = heap_type->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(self));
      return py::detail::is_holder_constructed(self) ? inside(self).traverse(visit, arg) : 0;
    };
    type.tp_clear = [](PyObject* self) {
      if (py::detail::is_holder_constructed(self)) inside(self).clear();
      return 0;
    };
  });
}

}  // namespace torch_distinput

PYBIND11_DECLARE_HOLDER_TYPE(T, torch_distinput::PipelineHandle<T>)
