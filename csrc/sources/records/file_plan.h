// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "io/record_fetcher.h"
#include "sources/records/file_format.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

class BufferPool;

/// Returns random access to the records of indexed files; a batch of them is one column of strings. The plan
/// blocks on reads and reports FileErrors in their public form.
PlanPtr file_plan(std::shared_ptr<const RecordFetcher> records, const FileReader& reader,
                  std::shared_ptr<BufferPool> pool);

}  // namespace torch_distinput
