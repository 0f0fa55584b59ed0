// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "device/device_count.h"
#include "device/transfer/device_stager.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// Bytes of batches on the way at a time, beyond the first.
constexpr std::int64_t kBudget = std::int64_t{64} << 20;

/// Brings tensors that Python made to a device as batches of the library's own get there.
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

 private:
  DeviceStager stager_;
};

}  // namespace

void bind_device(py::module_& module) {
  module.def("device_count", &device_count, "How many accelerators this process sees.");
  module.def(
      "count_devices_with",
      [](const std::string& type, std::function<int()> count) {
        count_devices_with(c10::Device(type).type(), std::move(count));
      },
      py::arg("type"), py::arg("count"), "Makes `device_count` call `count` for accelerators of `type`.");
  py::class_<DeviceCopies>(module, "DeviceCopies", "Copies of Python's batches to one device. One thread.")
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
          "`tensors`, dense ones on the CPU, for the device's current stream; nobody waits for their copy. "
          "Small ones are copied at once.");
}

}  // namespace torch_distinput
