// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/key_value_store.h"

namespace torch_distinput {

/// How the ranks of a group find a name for the life that they share. Where processes are restarted, the
/// store may hold texts of those that were there before, and nothing in the environment tells lives apart for
/// sure: torchrun's restart count differs between its agents. So each rank draws a number, the name is made
/// of all of them, and it counts once every rank has said that it sees the same: no earlier process can have
/// said so. One thread at a time.
class Rendezvous {
 public:
  explicit Rendezvous(KeyValueStorePtr kv_store);

  /// Goes on without waiting. The name, the same on every rank, when all have come; not to be called again
  /// then.
  std::optional<std::string> step();
  /// The ranks that have not come yet.
  std::vector<int> missing();

 private:
  KeyValueStorePtr kv_store_;
  std::string number_;
  std::vector<std::string> numbers_;  // keys
  std::vector<std::string> names_;    // keys
  std::string name_;                  // as this rank said it last
  bool posted_ = false;
};

/// `inner` with `prefix` before each key.
KeyValueStorePtr with_prefix(KeyValueStorePtr inner, std::string prefix);

}  // namespace torch_distinput
