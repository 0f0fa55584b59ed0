// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "files/record_fetcher.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

class BufferPool;

/// Random access to the records of indexed files; `op` names the reader in messages.
PlanPtr file_plan(std::shared_ptr<const RecordFetcher> records, std::string op,
                  std::shared_ptr<BufferPool> pool);

}  // namespace torch_distinput
