// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/utils/pybind.h>

#include "bindings/gather_bytes.h"
#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "comm/restarts.h"
#include "comm/tensor_text.h"
#include "torch_distinput/launch.h"
#include "torch_distinput/multi_worker.h"
#include "torch_distinput/part_strategy.h"
#include "torch_distinput/rank_grid.h"
#include "torch_distinput/store_costs.h"

namespace torch_distinput {
namespace py = pybind11;

namespace {

py::list all_gather_bytes(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const py::bytes& mine) {
  const auto everyone =
      without_gil([&, view = std::string_view(mine)] { return gather_bytes(*group, view); });
  py::list result;
  for (const std::string& bytes : everyone) result.append(py::bytes(bytes));
  return result;
}

py::bytes encode(const std::vector<at::Tensor>& tensors) {
  return without_gil([&] { return encode_tensors(tensors); });
}

std::vector<at::Tensor> decode(const py::bytes& data, const std::string& whose) {
  return without_gil([&, view = std::string_view(data)] { return decode_tensors(view, whose); });
}

}  // namespace

void bind_multi_worker(py::module_& module) {
  py::class_<ProcessGroup>(
      module, "ProcessGroup",
      "The processes that share one dataset and reach one store. `name` is the same in all of "
      "them and differs from that of every other group. Strategies over one object share one "
      "link to the other processes.")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::string name) {
             return without_gil([&] { return ProcessGroup(*store, rank, size, std::move(name)); });
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"));
  py::class_<MultiWorkerMirroredStrategy, Strategy>(module, "MultiWorkerMirroredStrategy",
                                                    "Several processes that share one dataset.")
      .def(py::init([](const ProcessGroup& group, std::vector<std::string> devices) {
             return without_gil(
                 [&] { return std::make_unique<MultiWorkerMirroredStrategy>(group, std::move(devices)); });
           }),
           py::arg("group"), py::arg("devices"));
  py::class_<PartStrategy, Strategy>(module, "PartStrategy",
                                     "One part of `count`; no process exchanges anything with another.")
      .def(py::init<std::int64_t, std::int64_t, std::vector<std::string>>(), py::arg("index"),
           py::arg("count"), py::arg("devices"));
  py::class_<StoreCosts>(module, "StoreCosts", "What the processes of a job cost a store.")
      .def_readonly("start_seconds", &StoreCosts::start_seconds, "Until all have met and shaken hands.")
      .def_readonly("start_requests", &StoreCosts::start_requests, "Requests meanwhile.")
      .def_readonly("start_bytes", &StoreCosts::start_bytes, "Bytes in and out of the store meanwhile.")
      .def_readonly("rest_requests_per_second", &StoreCosts::rest_requests_per_second,
                    "Requests while nothing happens.")
      .def_readonly("connections", &StoreCosts::connections, "Connections to the store.")
      .def_readonly("round_seconds", &StoreCosts::round_seconds, "The median time of a round.")
      .def_readonly("round_messages", &StoreCosts::round_messages, "Requests of a round.")
      .def_readonly("round_bytes", &StoreCosts::round_bytes, "Bytes of a round.");
  module.def(
      "measure_store",
      [](const c10::intrusive_ptr<c10d::Store>& store, int ranks, int hosts, const std::string& name,
         double rest) {
        return without_gil(
            [&] { return measure_store(*store, ranks, hosts, name, std::chrono::duration<double>(rest)); });
      },
      py::arg("store"), py::arg("ranks"), py::arg("hosts"), py::arg("name"), py::arg("rest"),
      "Measures a job of `ranks` ranks on `hosts` hosts, as threads of this process. `rest`: seconds at "
      "rest.");
  module.def("data_dims", &RankGrid::known_data_dims, "Names of a mesh's dims that rows are dealt along.");
  module.def("model_dims", &RankGrid::known_model_dims,
             "Names of a mesh's dims whose processes get the same rows.");
  module.def("starts_share_store", starts_share_store,
             "Whether torchrun gives the processes of all its starts one store.");
  module.def(
      "launched_with", &ProcessGroup::launched_with,
      "The variables in which the launcher of this process says that it started several; \"\" where it "
      "started one or there is none.");
  py::class_<Launch>(module, "Launch", "One of the processes that a launcher started.")
      .def_readonly("launcher", &Launch::launcher, "Such as `Slurm`.")
      .def_readonly("rank", &Launch::rank, "In [0, size).")
      .def_readonly("size", &Launch::size, "The number of processes.")
      .def_readonly("local_rank", &Launch::local_rank, "None where the launcher does not say it.")
      .def_readonly("host", &Launch::host, "As the launcher names it; \"\" where it does not.")
      .def_readonly("master_addr", &Launch::master_addr, "Where the store of the processes is.")
      .def_readonly("master_port", &Launch::master_port, "Its port.");
  module.def(
      "launch", [](const std::string& op) { return Launch::in(Launch::variables(), op); }, py::arg("op"),
      "The launch that this process's environment describes; None without a launcher. ValueError, which "
      "begins with `op`, for variables that are wrong, incomplete or in contradiction.");
  module.def(
      "local_rank", [](const std::string& op) { return Launch::local_rank_in(Launch::variables(), op); },
      py::arg("op"), "Of this process among those of its machine; None where no launcher says it.");
  module.def("all_gather_bytes", all_gather_bytes, py::arg("group"), py::arg("mine"),
             "The bytes of every rank, in the order of the ranks. A collective of `group`.");
  module.def("can_be_encoded", can_be_encoded, py::arg("tensor"),
             "Whether `encode_tensors` takes the tensor.");
  module.def("encode_tensors", encode, py::arg("tensors"),
             "Dense and sparse tensors as bytes for other ranks.");
  module.def(
      "decode_tensors", decode, py::arg("data"), py::arg("whose"),
      "What `encode_tensors` was given, on the CPU. DistributedDatasetError, which begins with `whose`, for "
      "other bytes.");
}

}  // namespace torch_distinput
