// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/key_value_store.h"

namespace torch_distinput {

/// What the stores of one group share.
struct SharedTexts {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::int64_t> numbers;
};

/// One rank's store in the memory of this process.
class InMemoryStore final : public KeyValueStore {
 public:
  InMemoryStore(std::shared_ptr<SharedTexts> shared, int rank, int size)
      : shared_(std::move(shared)), rank_(rank), size_(size) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  void expect_within(std::chrono::duration<double>) override {}  // it always answers

  void set(const std::string& key, const std::string& text) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->texts[key] = text;
    shared_->changed.notify_all();
  }

  std::string compare_set(const std::string& key, const std::string& text) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->changed.notify_all();
    return shared_->texts.try_emplace(key, text).first->second;
  }

  void append(const std::string& key, const std::string& text) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->texts[key] += text;
  }

  std::optional<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) override {
    const std::lock_guard lock(shared_->mutex);
    std::vector<std::string> found;
    for (const auto& key : keys) {
      const auto entry = shared_->texts.find(key);
      if (entry == shared_->texts.end()) return std::nullopt;
      found.push_back(entry->second);
    }
    return found;
  }

  std::optional<std::string> await(const std::string& key, std::chrono::milliseconds limit) override {
    std::unique_lock lock(shared_->mutex);
    if (!shared_->changed.wait_for(lock, limit, [&] { return shared_->texts.contains(key); }))
      return std::nullopt;
    return shared_->texts[key];
  }

  std::int64_t add(const std::string& key, std::int64_t value) override {
    const std::lock_guard lock(shared_->mutex);
    return shared_->numbers[key] += value;
  }

  void remove(const std::string& key) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->texts.erase(key);
    shared_->numbers.erase(key);
  }

  /// The number of keys that are there.
  std::size_t keys() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->texts.size() + shared_->numbers.size();
  }

 private:
  std::shared_ptr<SharedTexts> shared_;
  int rank_;
  int size_;
};

/// Stores in the memory of this process: the i-th is rank i's, and all share their contents.
inline std::vector<KeyValueStorePtr> in_memory_stores(int size) {
  const auto shared = std::make_shared<SharedTexts>();
  std::vector<KeyValueStorePtr> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_shared<InMemoryStore>(shared, rank, size));
  return ranks;
}

/// The number of keys in a store of `in_memory_stores`.
inline std::size_t keys_of(const KeyValueStore& store) {
  return dynamic_cast<const InMemoryStore&>(store).keys();
}

}  // namespace torch_distinput
