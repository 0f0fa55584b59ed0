// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace torch_distinput {

/// Posts `mine` and waits until every rank has posted under the same `key`; returns all texts by rank. `what`
/// says in messages what the ranks do. After 30 s of waiting a warning names those that are missing; after
/// `timeout` DistributedDatasetError does. Calls `interrupt_check()` about every 50 ms and throws what it
/// throws; calling again goes on waiting. When all ranks have returned, the texts are gone.
std::vector<std::string> wait_for_all(Communicator& communicator, const std::string& key,
                                      const std::string& mine, std::chrono::duration<double> timeout,
                                      const std::string& what);

/// `rank 3`, or `ranks 0, 2 and 5`.
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace torch_distinput
