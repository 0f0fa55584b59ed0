// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/module.h"

#include "bindings/iterator_handle.h"
#include "bindings/leaves/leaf.h"
#include "bindings/user_object.h"

namespace torch_distinput {
namespace {

/// Makes classes and functions be shown, and pickled, under the package's name.
void show_in_package(const py::module_& module) {
  for (const char* const name :
       {"AutoShardPolicy", "DatasetIterator", "DatasetSpec", "InputContext", "InputReplicationMode",
        "OpaqueSpec", "Options", "RaggedTensorSpec", "Skip", "SparseTensorSpec", "StepInfo", "StringSpec",
        "TensorSpec", "ValueContext", "random"}) {
    module.attr(name).attr("__module__") = "torch_distinput";
  }
}

}  // namespace
}  // namespace torch_distinput

// Without a GIL, too: what the bindings share is guarded, see state_guard.h.
PYBIND11_MODULE(_C, module, py::mod_gil_not_used()) {
  using namespace torch_distinput;
  module.doc() =
      "The native library as Python sees it. Use the package torch_distinput, which is built on it.";
  load_leaf_types();
  bind_errors(module);
  bind_spec(module);
  bind_options(module);
  bind_user_objects(module);
  bind_iterator(module);
  bind_ledger(module);
  bind_dataset(module);
  bind_contexts(module);
  bind_device(module);
  bind_files(module);
  bind_storage(module);
  bind_columns(module);
  bind_images(module);
  bind_records(module);
  bind_steps(module);
  bind_values(module);
  bind_strategy(module);
  bind_replica_run(module);
  bind_multi_worker(module);
  bind_preprocessing(module);
  bind_workers(module);
  bind_function_processes(module);
  bind_testing(module);
  bind_trace(module);
  bind_tokens(module);
  bind_call_clock(module);
  bind_machine(module);
  show_in_package(module);
  py::module_::import("atexit").attr("register")(py::cpp_function(stop_live_iterators));
}
