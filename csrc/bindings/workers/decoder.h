// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include <c10/core/Allocator.h>
#include <pybind11/pybind11.h>

#include "bindings/workers/tree.h"

namespace torch_distinput {

/// Makes the values of a tree that an Encoder wrote. Needs the GIL.
class Decoder {
 public:
  /// Makes the data of a tensor from an address, and holds the memory there.
  using Holder = std::function<c10::DataPtr(char*)>;

  /// `unpickle(bytes, buffers)` is the counterpart of the encoder's `pickle`. `beside` points to the memory
  /// beside the tree; tensors and buffers share it, and hold it. `device_reads`: holds tensors' memory where
  /// devices may copy from it; buffers then get memory of their own, because their copies to devices cannot
  /// be tracked.
  Decoder(pybind11::handle unpickle, std::string_view tree, std::shared_ptr<char> beside,
          Holder device_reads = nullptr)
      : unpickle_(unpickle),
        tree_(tree),
        beside_(std::move(beside)),
        device_reads_(std::move(device_reads)) {}

  /// The next value. Throws py::error_already_set, among others what `unpickle` raised.
  pybind11::object next();

 private:
  pybind11::object ints();
  pybind11::object class_of(std::string_view text);
  pybind11::object named_tuple();
  pybind11::object tensor();
  c10::DataPtr hold(std::uint64_t offset) const;
  pybind11::object pickled();

  pybind11::handle unpickle_;
  TreeReader tree_;
  std::shared_ptr<char> beside_;
  Holder device_reads_;
};

/// Memory of a batch that Python objects share and hold, as a writable buffer.
struct SharedBuffer {
  std::shared_ptr<char> memory;
  std::uint64_t bytes;
};

}  // namespace torch_distinput
