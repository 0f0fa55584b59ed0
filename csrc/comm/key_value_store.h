// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch_distinput {

/// A store in which the ranks of one group set texts for each other, as one rank sees it. No call but `await`
/// waits for another rank. Safe from any thread. Every call throws DistributedDatasetError when the store
/// cannot be reached. An exception of `interrupt_check()` ends the wait for an answer; the store may then
/// execute the call later or never, so repeating it must be harmless.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// The rank of this process, in [0, size()).
  virtual int rank() const noexcept = 0;
  /// Number of ranks.
  virtual int size() const noexcept = 0;
  /// From now on, a store that does not answer within `limit` is lost. The shortest limit ever set holds.
  virtual void expect_within(std::chrono::duration<double> limit) = 0;

  /// Sets the text under `key` to `text`, which must not be empty.
  virtual void set(const std::string& key, const std::string& text) = 0;
  /// Sets `text` under `key` unless there is a text already. Returns the text that is there afterwards.
  virtual std::string compare_set(const std::string& key, const std::string& text) = 0;
  /// Appends `text` to the text under `key`, if any, atomically. REQUIRES: ranks append different texts.
  virtual void append(const std::string& key, const std::string& text) = 0;
  /// The texts under `keys`, in this order; nullopt unless every key has one. Does not wait for them.
  virtual std::optional<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) = 0;
  /// Waits until there is a text under `key` and returns it; nullopt after `limit`. The store pushes the
  /// text's arrival: no polls. No interrupt ends the wait. One such call at a time; it delays no other call.
  virtual std::optional<std::string> await(const std::string& key, std::chrono::milliseconds limit) = 0;
  /// Adds `value` to the number under `key`, 0 at first, and returns the sum. REQUIRES: no call but `add` and
  /// `remove` uses `key`.
  virtual std::int64_t add(const std::string& key, std::int64_t value) = 0;
  /// Removes the text or number under `key`, if any.
  virtual void remove(const std::string& key) = 0;
};
using KeyValueStorePtr = std::shared_ptr<KeyValueStore>;

}  // namespace torch_distinput
