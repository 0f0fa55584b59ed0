// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include <pybind11/pybind11.h>

#include "bindings/collected.h"
#include "bindings/user_object.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/row_ledger.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// The last nodes of the pipelines of a dataset.
inline std::vector<NodePtr> pipelines_of(const Dataset& dataset) { return {dataset.node()}; }
inline std::vector<NodePtr> pipelines_of(const DistributedDataset& dataset) { return dataset.pipelines(); }

inline std::vector<NodePtr> pipelines_of(const RowLedger& ledger) { return ledger.pipelines(); }

/// pybind11's holder of a `T` that has pipelines: it also holds the references to the users' code that these
/// may call. Needs the GIL.
template <class T>
class PipelineHandle {
 public:
  explicit PipelineHandle(T* object) : object_(object), code_(pipelines_of(*object)) {}

  T* get() const noexcept { return object_.get(); }
  int traverse(visitproc visit, void* arg) const { return code_.traverse(visit, arg); }
  void clear() noexcept { code_.clear(); }

 private:
  std::unique_ptr<T> object_;
  CodeReferences code_;  ///< destroyed first, while C++ still has its own references
};

/// See `collected`.
template <class T>
PipelineHandle<T>& collectable(PipelineHandle<T>& holder) {
  return holder;
}

}  // namespace torch_distinput

PYBIND11_DECLARE_HOLDER_TYPE(T, torch_distinput::PipelineHandle<T>)
