// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

/// \file
/// The parts of the Python module, each bound by the .cpp file of the same name while the module loads.

namespace torch_distinput {

void bind_errors(pybind11::module_& module);
void bind_spec(pybind11::module_& module);
void bind_options(pybind11::module_& module);
void bind_iterator(pybind11::module_& module);
void bind_ledger(pybind11::module_& module);
void bind_dataset(pybind11::module_& module);
void bind_contexts(pybind11::module_& module);
void bind_device(pybind11::module_& module);
void bind_values(pybind11::module_& module);
void bind_files(pybind11::module_& module);
void bind_storage(pybind11::module_& module);
void bind_columns(pybind11::module_& module);
void bind_images(pybind11::module_& module);
void bind_records(pybind11::module_& module);
void bind_steps(pybind11::module_& module);
void bind_strategy(pybind11::module_& module);
void bind_replica_run(pybind11::module_& module);
void bind_multi_worker(pybind11::module_& module);
void bind_preprocessing(pybind11::module_& module);
void bind_workers(pybind11::module_& module);
void bind_function_processes(pybind11::module_& module);
void bind_testing(pybind11::module_& module);
void bind_trace(pybind11::module_& module);
void bind_tokens(pybind11::module_& module);
void bind_call_clock(pybind11::module_& module);
void bind_machine(pybind11::module_& module);

}  // namespace torch_distinput
