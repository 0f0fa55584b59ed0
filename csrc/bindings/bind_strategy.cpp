// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/convert.h"
#include "bindings/interpreter/gil.h"
#include "bindings/iterator_handle.h"
#include "bindings/module.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;
using DistributedIteratorHandle = IteratorHandle<DistributedIterator>;

/// `(value, StepInfo)` of a step. `wrap` makes a leaf of the value from the tuple of the replicas' leaves;
/// None: there is one replica.
py::tuple step_to_python(const PerReplica& step, const py::object& wrap) {
  std::vector<Element> parts(step.begin(), step.end());
  py::object value =
      wrap.is_none() ? element_to_python(std::move(parts.front())) : elements_to_python(parts, wrap);
  return py::make_tuple(std::move(value), step.info());
}

py::object next_step(DistributedIteratorHandle& self, const py::object& wrap) {
  const auto step = self.call([](DistributedIterator& iterator) { return iterator.next(); });
  if (!step) return py::none();
  return step_to_python(*step, wrap);
}

py::object get_next(DistributedIteratorHandle& self, const py::object& wrap) {
  return step_to_python(self.call([](DistributedIterator& iterator) { return iterator.get_next(); }), wrap);
}

py::object get_next_as_optional(DistributedIteratorHandle& self, const py::object& wrap) {
  const auto step = self.call([](DistributedIterator& iterator) { return iterator.get_next_as_optional(); });
  if (!step.has_value()) return py::none();
  return step_to_python(step.get_value(), wrap);
}

void bind_distributed_iterator(py::module_& module) {
  py::class_<DistributedIteratorHandle>(
      module, "DistributedIterator", collected<std::unique_ptr<DistributedIteratorHandle>>(),
      "One pass over the steps of a distributed dataset; a step is a pair of the value and its StepInfo. "
      "`wrap` makes a leaf of the value from the tuple of the replicas' leaves; None: there is one replica.")
      .def("next", next_step, py::arg("wrap"), "The next step, or None at the end.")
      .def("get_next", get_next, py::arg("wrap"), "The next step; OutOfRangeError at the end.")
      .def("get_next_as_optional", get_next_as_optional, py::arg("wrap"),
           "The next step, also one that `next` would not return, or None at the end.")
      .def_property_readonly(
          "step_info",
          [](DistributedIteratorHandle& self) {
            return self.call([](const DistributedIterator& it) { return it.step_info(); });
          },
          "The StepInfo of the step last returned.")
      .def(
          "state_dict",
          [](DistributedIteratorHandle& self) {
            return state_to_python(
                self.call([](const DistributedIterator& iterator) { return iterator.save(); }));
          },
          "The position after the step last returned, as plain values that JSON can hold.")
      .def(
          "state_at",
          [](DistributedIteratorHandle& self, std::int64_t step) {
            return state_to_python(
                self.call([&](const DistributedIterator& iterator) { return iterator.state_at(step); }));
          },
          py::arg("step"),
          "The position that `state_dict` has after the first `step` steps of this epoch, at most as many as "
          "it has, where the rows of steps are known without reading them.")
      .def(
          "load_state_dict",
          [](DistributedIteratorHandle& self, const py::object& state_dict) {
            const State state = state_from_python(state_dict);
            self.call([&](DistributedIterator& iterator) { iterator.load(state); });
          },
          py::arg("state_dict"), "Goes to a saved position.")
      .def(
          "follow",
          [](DistributedIteratorHandle& self, const std::optional<StepInfo>& info, const py::object& after) {
            const State state = state_from_python(after);
            self.call([&](DistributedIterator& iterator) { iterator.follow(info, state); });
          },
          py::arg("info"), py::arg("after"),
          "Takes the next step as another process with the same rows has: `info` is of its step, None at the "
          "end, and `after` is its `state_dict` then. Reads no rows.")
      .def(
          "set_weights",
          [](DistributedIteratorHandle& self, std::vector<double> weights, std::optional<std::int64_t> step) {
            self.call([&](DistributedIterator& it) { it.set_weights(std::move(weights), step); });
          },
          py::arg("weights"), py::arg("step") = py::none(),
          "From `step` on (None: the next one), the datasets of a mixture have these weights.")
      .def(
          "exclude",
          [](DistributedIteratorHandle& self, std::vector<std::int64_t> rows) {
            self.call([&](DistributedIterator& it) { it.exclude(std::move(rows)); });
          },
          py::arg("rows"), "From the next step on, leaves out these rows of the sources.")
      .def_property_readonly(
          "is_remote",
          [](DistributedIteratorHandle& self) {
            return self.call([](const DistributedIterator& it) { return it.is_remote(); });
          },
          "Whether the steps come over a network and are read by position; False before the first one.")
      .def(
          "begin_reading",
          [](DistributedIteratorHandle& self, std::uint64_t seed) {
            self.call([&](DistributedIterator& it) { it.begin_reading(seed); });
          },
          py::arg("seed"),
          "Begins to read what comes over a network, before the first step is asked for and by itself: with "
          "`seed`, on which the processes will agree. Does not wait.")
      .def(
          "stats",
          [](DistributedIteratorHandle& self) {
            return stats_to_python(self.look([](const DistributedIterator& it) { return it.stats(); }));
          },
          "Counts since the iterator was made.")
      .def_property_readonly(
          "failed",
          [](DistributedIteratorHandle& self) {
            return self.call([](const DistributedIterator& it) { return it.failed(); });
          },
          "Whether an error has ended this iterator.")
      .def("close", &DistributedIteratorHandle::close, "Stops reading ahead; the next step then raises.");
}

void bind_distributed_dataset(py::module_& module) {
  using Holder = PipelineHandle<DistributedDataset>;
  py::class_<DistributedDataset, Holder>(module, "DistributedDataset", collected<Holder>(),
                                         "A dataset whose rows a strategy assigns over replicas.")
      .def(
          "iterate",
          [](const DistributedDataset& self, std::optional<std::int64_t> epoch,
             std::optional<std::uint64_t> seed, bool stream_only, Facts facts, bool with_rows) {
            const IterateOptions options{.epoch = epoch,
                                         .seed = seed,
                                         .stream_only = stream_only,
                                         .with_rows = with_rows,
                                         .facts = std::move(facts)};
            auto iterator = without_gil([&] { return self.iterate(options); });
            return std::make_unique<DistributedIteratorHandle>("DistributedIterator", std::move(iterator),
                                                               CodeReferences(pipelines_of(self)));
          },
          py::arg("epoch") = py::none(), py::arg("seed") = py::none(), py::arg("stream_only") = false,
          py::arg("facts") = Facts{}, py::arg("with_rows") = true,
          "A new iterator over the steps of an epoch. `facts`: what must be equal on all processes besides "
          "what the library compares, as pairs of a name and a value. `with_rows=False`: steps whose values "
          "are "
          "None, because no row is read.")
      .def_property_readonly(
          "element_spec",
          [](const DistributedDataset& self) {
            return spec_to_python(without_gil([&] { return self.element_spec(); }));
          },
          "The spec of one replica's part.")
      .def_property_readonly(
          "cardinality",
          [](const DistributedDataset& self) { return without_gil([&] { return self.cardinality(); }); },
          "Global batches of the dataset that was distributed, -1 for infinite, -2 for unknown.")
      .def_property_readonly(
          "num_steps",
          [](const DistributedDataset& self) { return without_gil([&] { return self.num_steps(); }); },
          "Steps an epoch, or None where their number cannot be known.")
      .def(
          "ledger",
          [](const DistributedDataset& self, std::int64_t epoch, std::optional<std::uint64_t> seed,
             const py::object& position) {
            const LedgerEpoch of{epoch, seed, state_from_python(position)};
            return without_gil([&] { return self.ledger(of); });
          },
          py::arg("epoch"), py::arg("seed") = py::none(), py::arg("position") = py::none(),
          "Which rows are in each step of an epoch. `seed`: the base seed; None: the dataset's own. "
          "`position`: a saved one of the same dataset, for what was changed while it was read.")
      .def_property_readonly(
          "rows_to_merge",
          [](const DistributedDataset& self) { return without_gil([&] { return self.rows_to_merge(); }); },
          "Rows of the last step of the next epoch, where some replica gets none of them and the tail "
          "\"merge\" "
          "would give each some; else None.")
      .def_property_readonly(
          "partial_batch_handling",
          [](const DistributedDataset& self) {
            return without_gil([&] { return self.partial_batch_handling(); });
          },
          "Whether steps that lack parts are completed.")
      .def("set_epoch", &DistributedDataset::set_epoch, py::arg("epoch"), WithoutGil(),
           "Sets the epoch of the next iterator.")
      .def_property_readonly("sharding", &DistributedDataset::sharding,
                             "How the data is assigned over the processes, and why.")
      .def("explain", &DistributedDataset::explain, WithoutGil(),
           "Policy, splitter, path and sizes, and why.");
}

/// `make` is called on this thread before this returns, so it may use the GIL that this thread holds.
DistributedDataset from_function(const Strategy& self, const py::function& make, InputOptions options) {
  const auto call = [&](const InputContext& context) { return make(context).cast<Dataset>(); };
  return self.distribute_datasets_from_function(call, std::move(options));
}

}  // namespace

void bind_strategy(py::module_& module) {
  bind_distributed_iterator(module);
  bind_distributed_dataset(module);
  py::class_<Strategy>(module, "Strategy", "Decides which replica gets which rows on which device.")
      .def_property_readonly(
          "devices",
          [](const Strategy& self) {
            std::vector<std::string> names;
            for (const auto& device : self.devices()) names.push_back(device.str());
            return names;
          },
          "The devices of this process's replicas.")
      .def_property_readonly("num_replicas_in_sync", &Strategy::num_replicas_in_sync,
                             "Replicas of all processes.")
      .def_property_readonly("num_input_pipelines", &Strategy::num_input_pipelines,
                             "Processes that read data.")
      .def_property_readonly("input_pipeline_id", &Strategy::input_pipeline_id,
                             "The index of this process among them.")
      .def_property_readonly("wraps", &Strategy::wraps, "Whether values come as PerReplica.")
      .def_readwrite("enable_partial_batch_handling", &Strategy::enable_partial_batch_handling,
                     "Whether a step that lacks parts is completed with zero-row ones.")
      .def("distribute_dataset", &Strategy::distribute_dataset, py::arg("dataset"), py::arg("options"),
           WithoutGil(), "Assigns the rows of `dataset` to the replicas.")
      .def("__copy__", [](const Strategy& self) { return Strategy(self); })
      .def("distribute_datasets_from_function", from_function, py::arg("make"), py::arg("options"),
           "Distributes the elements of the datasets that `make(InputContext)` returns, as they are.");
  py::class_<OneDeviceStrategy, Strategy>(module, "OneDeviceStrategy",
                                          "One replica on one device; batches are not split.")
      .def(py::init<const std::string&>(), py::arg("device"));
  py::class_<MirroredStrategy, Strategy>(
      module, "MirroredStrategy",
      "Several replicas in this process, one for each device; no devices: every accelerator, else one CPU.")
      .def(py::init<std::vector<std::string>>(), py::arg("devices") = std::vector<std::string>());
}

}  // namespace torch_distinput
