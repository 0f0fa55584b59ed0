// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/arrays/array_sources.h"
#include "torch_distinput/arrays.h"

namespace torch_distinput {

NumpyDataset::NumpyDataset(FileNames files)
    : Dataset(sources::array_files(files.node(), ArrayKind::kNumpy)) {}

SafetensorsDataset::SafetensorsDataset(FileNames files)
    : Dataset(sources::array_files(files.node(), ArrayKind::kSafetensors)) {}

}  // namespace torch_distinput
