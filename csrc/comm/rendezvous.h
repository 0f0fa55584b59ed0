// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/key_value_store.h"

namespace torch_distinput {

/// Agrees on a name for one life of a group, from the start of its processes to their end. After a restart
/// the store may still hold texts of earlier processes, and nothing in the environment tells lives apart
/// reliably: torchrun's restart count differs between its agents. So each rank draws a random number, the
/// name is made of all numbers, and it holds once every rank has confirmed the same name, which no earlier
/// process can have confirmed. One thread at a time.
class Rendezvous {
 public:
  /// Writes nothing to `kv_store` yet.
  explicit Rendezvous(KeyValueStorePtr kv_store);

  /// Takes the next step without waiting for other ranks. Returns the name, the same on every rank, once all
  /// have confirmed it, else nullopt. REQUIRES: no name was returned before. Throws as KeyValueStore does.
  std::optional<std::string> step();
  /// The ranks that have not taken part yet, for messages. Throws as KeyValueStore does.
  std::vector<int> missing();

 private:
  KeyValueStorePtr kv_store_;
  std::string number_;
  std::vector<std::string> numbers_;  // keys
  std::vector<std::string> names_;    // keys
  std::string name_;                  // that this rank confirmed last
  bool posted_ = false;
};

/// `inner` with `prefix` before each key. As safe as `inner` from several threads.
KeyValueStorePtr with_prefix(KeyValueStorePtr inner, std::string prefix);

}  // namespace torch_distinput
