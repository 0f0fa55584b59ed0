// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <typeinfo>

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/convert.h"
#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "torch_distinput/testing.h"

namespace torch_distinput {
namespace {

/// Runs `check`. A law that does not hold is an AssertionError; errors of the pipeline keep their types.
template <class Check>
void assert_law(Check&& check) {
  try {
    without_gil(check);
  } catch (const c10::Error& error) {
    if (typeid(error) != typeid(c10::Error)) throw;
    PyErr_SetString(PyExc_AssertionError, error.what_without_backtrace());
    throw py::error_already_set();
  }
}

}  // namespace

void bind_testing(py::module_& parent) {
  py::module_ module = parent.def_submodule("testing", "Laws and building blocks for tests of pipelines.");
  module.def(
      "assert_resumable",
      [](const Dataset& dataset, bool ordered, std::int64_t max_elements) {
        assert_law([&] { testing::assert_resumable(dataset, ordered, max_elements); });
      },
      py::arg("dataset"), py::arg("ordered") = true, py::arg("max_elements") = 200,
      "Saves after every element, restores each save and compares the elements that follow, on both paths; "
      "AssertionError at the first position that differs. Compares in order unless `ordered` is False.");
  module.def(
      "assert_paths_agree",
      [](const Dataset& dataset, std::int64_t max_elements) {
        assert_law([&] { testing::assert_paths_agree(dataset, max_elements); });
      },
      py::arg("dataset"), py::arg("max_elements") = 200,
      "Checks that both paths yield identical elements; AssertionError at the first difference.");
  module.def(
      "state_to_text", [](const py::object& state_dict) { return state_from_python(state_dict).str(); },
      py::arg("state_dict"), "The text that a C++ program writes for this state.");
  module.def(
      "state_from_text", [](std::string_view text) { return state_to_python(State::parse(text)); },
      py::arg("text"), "The state that a C++ program reads from this text.");
  module.def("gil_turns", gil_turns, "How often the library has taken the GIL in this process.");
  module.def("batch_sizes_for_worker", &testing::batch_sizes_for_worker, py::arg("global_batch_size"),
             py::arg("num_workers"), py::arg("replicas_per_worker"), py::arg("worker"),
             "The sizes into which a worker cuts global batches.");
  module.def("infer_batch_size", &testing::infer_batch_size, py::arg("dataset"), WithoutGil(),
             "The global batch size as tf.distribute infers it, or -1.");
  module.def("legacy_rebatch", &testing::legacy_rebatch, py::arg("dataset"), py::arg("num_replicas"),
             WithoutGil(),
             "Every batch cut into `num_replicas` parts of up to ceil(rows / num_replicas) rows.");
  module.def("auto_shard", &testing::auto_shard, py::arg("dataset"), py::arg("num_workers"),
             py::arg("worker"), py::arg("policy"), WithoutGil(),
             "The elements that a worker reads under `policy`, without splitting batches.");
  module.def("worker_stream", &testing::worker_stream, py::arg("dataset"), py::arg("num_workers"),
             py::arg("replicas_per_worker"), py::arg("worker"), py::arg("policy"), WithoutGil(),
             "The stream of parts of a worker, split and sharded as tf.distribute does.");
}

}  // namespace torch_distinput
