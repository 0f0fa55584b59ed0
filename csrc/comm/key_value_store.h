// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch_distinput {

/// The ranks of a group as one of them sees them, and a store on which they leave texts for each other.
/// No call waits for another rank. Any thread may call. Throws DistributedDatasetError where the store cannot
/// be reached. What `interrupt_check()` throws ends the wait for a store that does not answer; the call is
/// then made some time, or never: making it again must do no harm.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// This process, in [0, size()).
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// From now on a store that does not answer for `limit` counts as lost.
  virtual void expect_within(std::chrono::duration<double> limit) = 0;

  /// Puts `text`, which is not empty, under `key`, in the place of what is there.
  virtual void set(const std::string& key, const std::string& text) = 0;
  /// Puts `text` under `key` unless there is a text already. Returns the text that is there.
  virtual std::string compare_set(const std::string& key, const std::string& text) = 0;
  /// Puts `text` behind what is under `key`, if anything, undivided. No two of the texts there are the same.
  virtual void append(const std::string& key, const std::string& text) = 0;
  /// The texts under `keys`; nullopt unless all are there.
  virtual std::optional<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) = 0;
  /// Adds `value` to the number under `key`, 0 at first, and returns the sum. A key of its own, not for
  /// `look`.
  virtual std::int64_t add(const std::string& key, std::int64_t value) = 0;
  /// Takes away what is under `key`, if anything.
  virtual void remove(const std::string& key) = 0;
};
using KeyValueStorePtr = std::shared_ptr<KeyValueStore>;

/// The ranks of a group within this process, for tests: store i is rank i's. They share a store.
std::vector<KeyValueStorePtr> in_memory_stores(int size);

}  // namespace torch_distinput
