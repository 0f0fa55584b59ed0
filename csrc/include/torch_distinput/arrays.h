// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/files.h"

/// \file
/// Datasets of the rows of arrays in files.

namespace torch_distinput {

/// The rows along dim 0 of `.npy` files, as tensors, or of `.npz` files, as dicts by the names of their
/// arrays. Random access: rows are read where they lie; only compressed members of an `.npz` are unpacked
/// into memory; of others the CRC-32 is compared before the first row of a file is read, once for a dataset,
/// which reads the file from begin to end. Reading throws NotFoundError for a missing file, SystemError for
/// one that cannot be read, and InvalidArgumentError, naming file and byte, for a header that does not fit
/// the file, for objects, structures, big-endian and column-major arrays, for arrays of different length, for
/// a wrong checksum, for members of an `.npz` that share bytes or that unpack to more than this machine's
/// memory, for more than 2^24 rows that hold no bytes, and for a file that changes meanwhile.
class TDI_API NumpyDataset : public Dataset {
 public:
  explicit NumpyDataset(FileNames files);
};

/// The rows along dim 0 of the tensors in `.safetensors` files, as dicts by name. Otherwise as NumpyDataset.
class TDI_API SafetensorsDataset : public Dataset {
 public:
  explicit SafetensorsDataset(FileNames files);
};

}  // namespace torch_distinput
