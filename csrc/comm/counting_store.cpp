// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/counting_store.h"

#include <utility>

namespace torch_distinput {
namespace {

constexpr std::int64_t kNumber = 8;

class CountingStore final : public KeyValueStore {
 public:
  CountingStore(KeyValueStorePtr inner, std::shared_ptr<StoreTraffic> traffic)
      : inner_(std::move(inner)), traffic_(std::move(traffic)) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  void expect_within(std::chrono::duration<double> limit) override { inner_->expect_within(limit); }

  void set(const std::string& key, const std::string& text) override {
    count(1, key.size() + text.size());
    inner_->set(key, text);
  }
  std::string compare_set(const std::string& key, const std::string& text) override {
    std::string there = inner_->compare_set(key, text);
    count(1, key.size() + text.size() + there.size());
    return there;
  }
  void append(const std::string& key, const std::string& text) override {
    count(1, key.size() + text.size());
    inner_->append(key, text);
  }
  std::optional<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) override {
    auto texts = inner_->multi_get(keys);
    std::size_t bytes = 0;
    for (const auto& key : keys) bytes += key.size();
    if (texts)
      for (const auto& text : *texts) bytes += text.size();
    count(1, bytes);
    return texts;
  }
  std::optional<std::string> await(const std::string& key, std::chrono::milliseconds limit) override {
    count(1, key.size());
    auto text = inner_->await(key, limit);
    if (text) count(1, key.size() + text->size());
    return text;
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    count(1, key.size() + 2 * kNumber);
    return inner_->add(key, value);
  }
  void remove(const std::string& key) override {
    count(1, key.size() + kNumber);
    inner_->remove(key);
  }

 private:
  void count(std::int64_t requests, std::size_t bytes) {
    if (!used_.exchange(true)) ++traffic_->users;
    traffic_->requests += requests;
    traffic_->bytes += static_cast<std::int64_t>(bytes);
  }

  KeyValueStorePtr inner_;
  std::shared_ptr<StoreTraffic> traffic_;
  std::atomic<bool> used_{false};
};

}  // namespace

KeyValueStorePtr counting_store(KeyValueStorePtr inner, std::shared_ptr<StoreTraffic> traffic) {
  return std::make_shared<CountingStore>(std::move(inner), std::move(traffic));
}

}  // namespace torch_distinput
