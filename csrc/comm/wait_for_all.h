// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/patience.h"

namespace torch_distinput {

/// Posts `mine` and waits until every rank has posted under the same `key`; returns all texts by rank. When
/// the wait was ended early, calling again goes on with it. When all ranks have returned, the texts are gone.
std::vector<std::string> wait_for_all(Communicator& communicator, const std::string& key,
                                      const std::string& mine, const Patience& patience);

/// `<key>/0`, `<key>/1`, ..., one for each rank.
std::vector<std::string> keys_of_all(const std::string& key, int size);

/// The ranks that have nothing under their key of `keys_of_all`.
std::vector<int> ranks_without(Communicator& communicator, const std::vector<std::string>& keys);

/// This rank needs the texts under `keys` no more: the last one to say so takes them away. `key` is the same
/// on every rank, and used for nothing else.
void leave_texts(Communicator& communicator, const std::string& key, const std::vector<std::string>& keys);

}  // namespace torch_distinput
