// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <utility>

#include "comm/exchange_all.h"
#include "comm/peer_text.h"

namespace torch_distinput {
namespace {

std::uint64_t draw() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string written(std::uint64_t number) {
  PeerTextWriter writer;
  writer.integer(number);
  return writer.take();
}

/// `keys`: of `numbers`.
std::string name_of(const std::vector<std::string>& numbers, const std::vector<std::string>& keys) {
  std::uint64_t all = 0;
  for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
    PeerTextReader reader(numbers[rank], "DistributedDataset: the text of rank " + std::to_string(rank) +
                                             " under `" + keys[rank] + "`");
    all ^= reader.bits("a random number");
    reader.end();
  }
  std::ostringstream text;
  text << std::hex << all;
  return text.str();
}

}  // namespace

Rendezvous::Rendezvous(KeyValueStorePtr kv_store)
    : kv_store_(std::move(kv_store)),
      number_(written(draw())),
      numbers_(keys_of_all("rendezvous/number", kv_store_->size())),
      names_(keys_of_all("rendezvous/name", kv_store_->size())) {}

std::optional<std::string> Rendezvous::step() {
  const auto rank = static_cast<std::size_t>(kv_store_->rank());
  if (!std::exchange(posted_, true)) kv_store_->set(numbers_[rank], number_);
  const auto numbers = kv_store_->multi_get(numbers_);
  if (!numbers) return std::nullopt;
  std::string name = name_of(*numbers, numbers_);
  if (std::exchange(name_, name) != name) kv_store_->set(names_[rank], name);
  const auto names = kv_store_->multi_get(names_);
  if (!names || std::any_of(names->begin(), names->end(), [&](const auto& one) { return one != name; }))
    return std::nullopt;
  auto keys = numbers_;
  keys.insert(keys.end(), names_.begin(), names_.end());
  leave_texts(*kv_store_, "rendezvous/" + name, keys);
  return name;
}

std::vector<int> Rendezvous::missing() {
  auto ranks = ranks_without(*kv_store_, numbers_);
  for (int rank = 0; rank < kv_store_->size() && ranks.empty(); ++rank) {
    // A number may be of an earlier life: only ranks that confirm the name have taken part.
    const auto name = kv_store_->multi_get({names_[static_cast<std::size_t>(rank)]});
    if (!name || name->front() != name_) ranks.push_back(rank);
  }
  return ranks;
}

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
