// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <pybind11/native_enum.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/argument.h"
#include "bindings/function.h"
#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "torch_distinput/step_rows.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

using Count = Required<std::int64_t>;

constexpr std::array<std::pair<const char*, Split>, 3> kSplits = {{
    {"tf", Split::kTf},
    {"balanced", Split::kBalanced},
    {"lanes", Split::kLanes},
}};
constexpr std::array<std::pair<const char*, Tail>, 6> kTails = {{
    {"zero_rows", Tail::kZeroRows},
    {"padded", Tail::kPadded},
    {"repeat", Tail::kRepeat},
    {"drop", Tail::kDrop},
    {"until_first", Tail::kUntilFirst},
    {"merge", Tail::kMerge},
}};

template <class Names>
auto value_of(const Names& names, const char* parameter, const std::string& name) {
  const auto* found =
      std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.first == name; });
  if (found != names.end()) return found->second;
  std::string known;
  for (const auto& entry : names) known += (known.empty() ? "\"" : ", \"") + std::string(entry.first) + "\"";
  C10_THROW_ERROR(ValueError, std::string("InputOptions: `") + parameter + "` must be one of " + known +
                                  ", but is \"" + name + "\".");
}

template <class Names, class Value>
const char* name_of(const Names& names, Value value) {
  return std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.second == value; })
      ->first;
}

template <class Value>
py::tuple to_tuple(const std::vector<Value>& values) {
  py::tuple result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = py::cast(static_cast<Value>(values[i]));
  return result;
}

/// `(rows, ((begin, end), ...))`; None for nullopt.
py::object order_to_python(const std::optional<RowOrder>& order) {
  if (!order) return py::none();
  py::tuple pieces(order->pieces.size());
  for (std::size_t i = 0; i < order->pieces.size(); ++i) {
    pieces[i] = py::make_tuple(order->pieces[i].begin, order->pieces[i].end);
  }
  return py::make_tuple(order->rows, std::move(pieces));
}

std::optional<RowOrder> order_from_python(const py::object& order) {
  if (order.is_none()) return std::nullopt;
  const auto [rows, pieces] =
      order.cast<std::pair<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>>>();
  RowOrder result{.rows = rows};
  for (const auto& [begin, end] : pieces) result.pieces.push_back({begin, end});
  return result;
}

/// All fields, in the order of the constructor's arguments.
py::tuple step_fields(const StepInfo& info) {
  return py::make_tuple(info.epoch, info.step, info.row_start, to_tuple(info.valid), info.global_valid,
                        info.num_replicas, to_tuple(info.loss_scale), info.is_last, to_tuple(info.has_value),
                        order_to_python(info.order));
}

StepInfo make_step_info(const Count& epoch, const Count& step, const Count& row_start,
                        const Required<std::vector<std::int64_t>>& valid, const Count& global_valid,
                        const Count& num_replicas, const Required<std::vector<double>>& loss_scale,
                        const Required<bool>& is_last, const Required<std::vector<bool>>& has_value,
                        const py::object& order) {
  constexpr const char* kBindStepsName = "StepInfo";
  return {epoch.get(kBindStepsName, "epoch"),
          step.get(kBindStepsName, "step"),
          row_start.get(kBindStepsName, "row_start"),
          valid.get(kBindStepsName, "valid"),
          global_valid.get(kBindStepsName, "global_valid"),
          num_replicas.get(kBindStepsName, "num_replicas"),
          loss_scale.get(kBindStepsName, "loss_scale"),
          is_last.get(kBindStepsName, "is_last"),
          has_value.get(kBindStepsName, "has_value"),
          order_from_python(order)};
}

void bind_step_info(py::module_& module) {
  py::class_<StepInfo>(module, "StepInfo", "What a step holds. Tuples have one entry for each local replica.")
      .def(py::init(&make_step_info), py::arg("epoch"), py::arg("step"), py::arg("row_start"),
           py::arg("valid"), py::arg("global_valid"), py::arg("num_replicas"), py::arg("loss_scale"),
           py::arg("is_last"), py::arg("has_value"), py::arg("_order") = py::none())
      .def_readonly("epoch", &StepInfo::epoch, "The epoch.")
      .def_readonly("step", &StepInfo::step, "Number of the step in its epoch, from 0.")
      .def_readonly("row_start", &StepInfo::row_start,
                    "Rows of the epoch before this step, over all replicas.")
      .def_property_readonly(
          "valid", [](const StepInfo& self) { return to_tuple(self.valid); },
          "Rows that count: all but padding.")
      .def_readonly("global_valid", &StepInfo::global_valid,
                    "Sum of `valid` over the replicas of all processes.")
      .def_readonly("num_replicas", &StepInfo::num_replicas, "Replicas of all processes.")
      .def_property_readonly(
          "loss_scale", [](const StepInfo& self) { return to_tuple(self.loss_scale); },
          "num_replicas * valid / global_valid, 0 where global_valid is 0: a replica's mean loss times this "
          "has the global mean as its average over the replicas.")
      .def_readonly("is_last", &StepInfo::is_last, "Whether the epoch ends with this step.")
      .def_property_readonly(
          "has_value", [](const StepInfo& self) { return to_tuple(self.has_value); },
          "False for a dummy part, which only completes the step.")
      .def(
          "__eq__",
          [](const StepInfo& self, const StepInfo& other) {
            return step_fields(self).equal(step_fields(other));
          },
          py::is_operator(), py::arg("other"))
      .def("__hash__", [](const StepInfo& self) { return py::hash(step_fields(self)); })
      .def("__reduce__",
           [](const StepInfo& self) { return py::make_tuple(py::type::of<StepInfo>(), step_fields(self)); })
      .def("__repr__", [](const StepInfo& self) {
        return py::str(
                   "StepInfo(epoch={}, step={}, row_start={}, valid={}, global_valid={}, num_replicas={}, "
                   "loss_scale={}, is_last={}, has_value={})")
            .format(*step_fields(self));
      });
}

InputOptions make_input_options(bool fetch_to_device, ReplicationMode replication_mode,
                                bool place_dataset_on_device, std::int64_t per_replica_buffer_size,
                                const std::string& split, const std::string& tail,
                                std::optional<std::vector<double>> weights, const py::object& balance,
                                std::int64_t balance_window, double peer_timeout, double host_timeout) {
  std::optional<RowCost> cost;
  if (!balance.is_none()) cost = row_cost_from_python(balance, "InputOptions(balance)");
  return {.fetch_to_device = fetch_to_device,
          .replication_mode = replication_mode,
          .place_dataset_on_device = place_dataset_on_device,
          .per_replica_buffer_size = per_replica_buffer_size,
          .split = value_of(kSplits, "split", split),
          .tail = value_of(kTails, "tail", tail),
          .weights = std::move(weights),
          .balance = std::move(cost),
          .balance_window = balance_window,
          .peer_timeout = peer_timeout,
          .host_timeout = host_timeout};
}

void bind_input_options(py::module_& module) {
  py::native_enum<ReplicationMode>(module, "InputReplicationMode", "enum.Enum",
                                   "How many input pipelines there are.")
      .value("PER_WORKER", ReplicationMode::kPerWorker, "One for each process.")
      .value("PER_REPLICA", ReplicationMode::kPerReplica, "One for each replica.")
      .finalize();
  const InputOptions defaults;
  py::class_<InputOptions>(module, "InputOptions", "Options of a distributed dataset.")
      .def(py::init(&make_input_options), py::arg("fetch_to_device") = defaults.fetch_to_device,
           py::arg("replication_mode") = defaults.replication_mode,
           py::arg("place_dataset_on_device") = defaults.place_dataset_on_device,
           py::arg("per_replica_buffer_size") = defaults.per_replica_buffer_size,
           py::arg("split") = name_of(kSplits, defaults.split),
           py::arg("tail") = name_of(kTails, defaults.tail), py::arg("weights") = py::none(),
           py::arg("balance") = py::none(), py::arg("balance_window") = defaults.balance_window,
           py::arg("peer_timeout") = defaults.peer_timeout, py::arg("host_timeout") = defaults.host_timeout)
      .def_readonly("fetch_to_device", &InputOptions::fetch_to_device,
                    "Whether parts are copied to their replica's device.")
      .def_readonly("replication_mode", &InputOptions::replication_mode,
                    "How many input pipelines there are.")
      .def_readonly("place_dataset_on_device", &InputOptions::place_dataset_on_device,
                    "For PER_REPLICA without fetch_to_device: the pipelines run on the host, and parts are "
                    "copied to their replica's device.")
      .def_readonly("per_replica_buffer_size", &InputOptions::per_replica_buffer_size,
                    "k: about 1 + 2k steps are read ahead; 0: none.")
      .def_property_readonly(
          "split", [](const InputOptions& self) { return name_of(kSplits, self.split); },
          "How a global batch is cut over the replicas: \"tf\" or \"balanced\".")
      .def_property_readonly(
          "tail", [](const InputOptions& self) { return name_of(kTails, self.tail); },
          "What happens to a short last batch: \"zero_rows\", \"padded\", \"repeat\", \"drop\", "
          "\"until_first\" or \"merge\".")
      .def_readonly("weights", &InputOptions::weights, "Relative shares of the replicas, or None.")
      .def_readonly("balance_window", &InputOptions::balance_window,
                    "Global batches whose rows are exchanged by their costs.")
      .def_readonly("peer_timeout", &InputOptions::peer_timeout,
                    "Seconds that other processes, and the store, may keep this one waiting.")
      .def_readonly("host_timeout", &InputOptions::host_timeout,
                    "Seconds without a sign of life after which another host counts as lost.");
}

void bind_step_rows(py::module_& module) {
  py::class_<StepRows>(module, "StepRows", "Which rows of an epoch each replica gets in each step.")
      .def(py::init<const Dataset&, std::int64_t, const InputOptions&>(), py::arg("batches"),
           py::arg("num_replicas"), py::arg("options"), WithoutGil())
      .def_property_readonly("num_steps", &StepRows::num_steps, "Steps of an epoch.")
      .def(
          "rows",
          [](const StepRows& self, std::int64_t step, std::int64_t replica) {
            return without_gil([&] { return self.rows(step, replica); });
          },
          py::arg("step"), py::arg("replica"),
          "The rows that `replica` gets in `step`, in order, with those that the tail repeats.")
      .def("global_valid", &StepRows::global_valid, py::arg("step"), WithoutGil(),
           "How many rows count in `step`, over all replicas.");
}

}  // namespace

void bind_steps(py::module_& module) {
  bind_step_info(module);
  bind_input_options(module);
  bind_step_rows(module);
}

}  // namespace torch_distinput
