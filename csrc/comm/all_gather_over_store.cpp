// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "comm/all_gather.h"

namespace torch_distinput {
namespace {

/// One rank's text as it is appended to the round's text, in the order in which ranks arrive.
std::string frame(int rank, const std::string& text) {
  return std::to_string(rank) + " " + std::to_string(text.size()) + " " + text;
}

std::size_t read_number(std::string_view& text) {
  std::size_t number = 0;
  const std::size_t end = text.find(' ');
  for (const char digit : text.substr(0, end)) number = 10 * number + static_cast<std::size_t>(digit - '0');
  text.remove_prefix(end + 1);
  return number;
}

/// The texts by rank; nullopt for ranks that have not sent one. A text may be there twice: after an interrupt
/// during the append, the rank appends it again.
std::vector<std::optional<std::string>> read_frames(std::string_view said, int size) {
  std::vector<std::optional<std::string>> texts(static_cast<std::size_t>(size));
  while (!said.empty()) {
    const std::size_t rank = read_number(said);
    const std::size_t length = read_number(said);
    texts[rank] = said.substr(0, length);
    said.remove_prefix(length);
  }
  return texts;
}

/// All ranks append to one text, so that one poll takes one message to the store and one back, however many
/// ranks there are.
class StoreAllGather final : public AllGather {
 public:
  StoreAllGather(KeyValueStorePtr kv_store, std::string key)
      : kv_store_(std::move(kv_store)), key_(std::move(key)) {}
  ~StoreAllGather() override {
    if (process_ != ::getpid()) return;  // the store's connection is the parent's
    // The last rank to leave removes the last rounds' texts. Ranks that were stopped may be one round apart.
    std::vector<std::string> keys;
    for (std::int64_t round = std::max<std::int64_t>(held_ - 2, 0); round <= held_ + 1; ++round)
      keys.push_back(round_key(round));
    leave_texts(*kv_store_, key_ + "/gone", keys);
  }
  StoreAllGather(const StoreAllGather&) = delete;
  StoreAllGather& operator=(const StoreAllGather&) = delete;

  std::vector<std::string> run(const std::string& text, const WaitOptions& wait_options) override {
    if (!said_) say(text);
    wait_until(
        kv_store_->rank(), [this] { return silent().empty(); }, [this] { return silent(); }, wait_options);
    said_ = false;
    ++held_;
    std::vector<std::string> all;
    for (auto& one : heard_) all.push_back(std::move(*one));
    return all;
  }

 private:
  std::string round_key(std::int64_t round) const { return key_ + "/" + std::to_string(round); }

  void say(const std::string& text) {
    kv_store_->append(round_key(held_), frame(kv_store_->rank(), text));
    said_ = true;
    // A rank that sent in round `held_ - 1` had received all of round `held_ - 2`.
    if (kv_store_->rank() == 0 && held_ >= 2) kv_store_->remove(round_key(held_ - 2));
  }

  /// Polls the store. Returns the ranks that have not sent a text in this round.
  std::vector<int> silent() {
    const auto said = kv_store_->multi_get({round_key(held_)});
    heard_ = read_frames(said ? said->front() : "", kv_store_->size());
    std::vector<int> ranks;
    for (int rank = 0; rank < kv_store_->size(); ++rank)
      if (!heard_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
    return ranks;
  }

  KeyValueStorePtr kv_store_;
  std::string key_;
  std::int64_t held_ = 0;
  bool said_ = false;  // whether this rank has sent its text of round `held_`
  std::vector<std::optional<std::string>> heard_;
  pid_t process_ = ::getpid();
};

}  // namespace

std::unique_ptr<AllGather> all_gather_over_store(KeyValueStorePtr kv_store, std::string key) {
  return std::make_unique<StoreAllGather>(std::move(kv_store), std::move(key));
}

}  // namespace torch_distinput
