// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <pybind11/pybind11.h>

#include "torch_distinput/storage.h"

namespace torch_distinput {

/// A file system that an object of Python reads. It has look(url) -> (size, version), read(url, offset, size)
/// -> bytes and list(prefix) -> [(url, size, version)]; FileNotFoundError says that there is no such object.
/// REQUIRES: the GIL.
std::shared_ptr<FileSystem> python_file_system(const pybind11::object& files);

}  // namespace torch_distinput
