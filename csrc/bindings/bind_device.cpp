// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "device/device_count.h"
#include "device/transfer/device_stager.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// Bytes of batches that may be in flight at a time, beyond the first batch.
constexpr std::int64_t kBudget = std::int64_t{64} << 20;

/// Copies tensors that Python made to a device in the same way as the library's own batches.
class DeviceCopies {
 public:
  explicit DeviceCopies(const std::string& device)
      : stager_(open_device_context(c10::Device(device)), kBudget) {}

  std::vector<at::Tensor> bring(std::vector<at::Tensor> tensors) {
    std::vector<Element> parts(std::make_move_iterator(tensors.begin()),
                               std::make_move_iterator(tensors.end()));
    const Element arrived =
        stager_.deliver(stager_.stage(Element::tuple(std::move(parts)), interrupt_check()));
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = arrived.tensor(i);
    return tensors;
  }

  void collect() { stager_.collect(); }

 private:
  DeviceStager stager_;
};

}  // namespace

void bind_device(py::module_& module) {
  module.def("device_count", &device_count, "Number of accelerators that this process sees.");
  module.def(
      "count_devices_with",
      [](const std::string& type, std::function<int()> count) {
        count_devices_with(c10::Device(type).type(), std::move(count));
      },
      py::arg("type"), py::arg("count"), "Makes `device_count` call `count` for accelerators of `type`.");
  py::class_<DeviceCopies>(module, "DeviceCopies",
                           "Copies batches that Python made to one device. One thread at a time.")
      .def(py::init([](const std::string& device) {
             return without_gil([&] { return std::make_unique<DeviceCopies>(device); });
           }),
           py::arg("device"), "Sets up the device.")
      .def(
          "bring",
          [](DeviceCopies& self, std::vector<at::Tensor> tensors) {
            return without_gil([&] { return self.bring(std::move(tensors)); });
          },
          py::arg("tensors"),
          "Copies of `tensors`, dense ones on the CPU, on the device. The device's current stream waits for "
          "the copies; the host does not. Small tensors are copied as one block.")
      .def(
          "collect", [](DeviceCopies& self) { without_gil([&] { self.collect(); }); },
          "Releases tensors that the device has read. Does not wait.");
}

}  // namespace torch_distinput
