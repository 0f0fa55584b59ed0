// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/with_prefix.h"

#include <utility>

namespace torch_distinput {
namespace {

class Prefixed final : public KeyValueStore {
 public:
  Prefixed(KeyValueStorePtr inner, std::string prefix)
      : inner_(std::move(inner)), prefix_(std::move(prefix)) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  void expect_within(std::chrono::duration<double> limit) override { inner_->expect_within(limit); }
  void set(const std::string& key, const std::string& text) override { inner_->set(prefix_ + key, text); }
  std::string compare_set(const std::string& key, const std::string& text) override {
    return inner_->compare_set(prefix_ + key, text);
  }
  void append(const std::string& key, const std::string& text) override {
    inner_->append(prefix_ + key, text);
  }
  std::optional<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) override {
    std::vector<std::string> full;
    for (const auto& key : keys) full.push_back(prefix_ + key);
    return inner_->multi_get(full);
  }
  std::optional<std::string> await(const std::string& key, std::chrono::milliseconds limit) override {
    return inner_->await(prefix_ + key, limit);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return inner_->add(prefix_ + key, value);
  }
  void remove(const std::string& key) override { inner_->remove(prefix_ + key); }

 private:
  KeyValueStorePtr inner_;
  std::string prefix_;
};

}  // namespace

KeyValueStorePtr with_prefix(KeyValueStorePtr inner, std::string prefix) {
  return std::make_shared<Prefixed>(std::move(inner), std::move(prefix));
}

}  // namespace torch_distinput
