// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "torch_distinput/spec.h"

namespace torch_distinput {

/// One op of a pipeline, as `Dataset::ops` reports it. A value.
struct OpInfo {
  std::string call = {};         ///< the op with its arguments: `batch(batch_size=4)`
  std::size_t num_inputs = 0;    ///< ops that it reads; 0 for a source
  std::int64_t cardinality = 0;  ///< elements an epoch, `kInfiniteCardinality` or `kUnknownCardinality`
  std::string path = {};         ///< `plan`; `stream: ` and why; or `fails: ` and the error of iterating
  std::string facts = {};        ///< what else it knows before it is read: `98 % filled`; "" if nothing
  bool runs_user_code = false;   ///< calls code that may block or need an interpreter's lock (Python)
  std::string threads = {};      ///< the threads that do its work, at most: `arena (8)`, or `caller`
  SpecPtr spec = nullptr;        ///< of its elements; null where it cannot be known
};

}  // namespace torch_distinput
