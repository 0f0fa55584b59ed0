// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/fork_guard.h"
#include "comm/all_gather.h"
#include "comm/peer_text.h"

namespace torch_distinput {
namespace {

/// One rank's text as it is appended to the round's text, in the order in which ranks arrive.
std::string frame(int rank, const std::string& text) {
  PeerTextWriter writer;
  writer.integer(rank);
  writer.string(text);
  return writer.take();
}

/// All ranks append to one text, so that one poll takes one message to the store and one back, however many
/// ranks there are.
class StoreAllGather final : public AllGather {
 public:
  StoreAllGather(KeyValueStorePtr kv_store, std::string key)
      : kv_store_(std::move(kv_store)), key_(std::move(key)) {}
  ~StoreAllGather() override {
    if (fork_guard_.inherited()) return;  // the store's connection is the parent's
    // The last rank to leave removes the last rounds' texts. Ranks that were stopped may be one round apart.
    std::vector<std::string> keys;
    for (std::int64_t round = std::max<std::int64_t>(held_ - 2, 0); round <= held_ + 1; ++round)
      keys.push_back(round_key(round));
    leave_texts(*kv_store_, key_ + "/gone", keys);
  }
  StoreAllGather(const StoreAllGather&) = delete;
  StoreAllGather& operator=(const StoreAllGather&) = delete;

  std::vector<std::string> run(const std::string& text, const WaitOptions& wait_options) override {
    if (!sent_) send(text);
    wait_until(
        kv_store_->rank(), [this] { return missing().empty(); }, [this] { return missing(); }, wait_options);
    check_own();
    sent_.reset();
    ++held_;
    std::vector<std::string> all;
    for (auto& one : received_) all.push_back(std::move(*one));
    return all;
  }

 private:
  std::string round_key(std::int64_t round) const { return key_ + "/" + std::to_string(round); }

  void send(const std::string& text) {
    kv_store_->append(round_key(held_), frame(kv_store_->rank(), text));
    sent_ = text;
    // A rank that sent in round `held_ - 1` had received all of round `held_ - 2`.
    if (kv_store_->rank() == 0 && held_ >= 2) kv_store_->remove(round_key(held_ - 2));
  }

  /// What the round's text is, for messages.
  std::string whose() const {
    return "DistributedDataset: the ranks' texts under `" + round_key(held_) + "`";
  }

  void check_own() const {
    if (received_[static_cast<std::size_t>(kv_store_->rank())] == sent_) return;
    PeerTextReader("", whose()).fail("this rank's text", "the one that it sent", "another one");
  }

  /// Polls the store. Returns the ranks that have not sent a text in this round.
  std::vector<int> missing() {
    const auto frames = kv_store_->multi_get({round_key(held_)});
    received_ = read_frames({frames ? frames->front() : "", whose()}, kv_store_->size());
    std::vector<int> ranks;
    for (int rank = 0; rank < kv_store_->size(); ++rank)
      if (!received_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
    return ranks;
  }

  KeyValueStorePtr kv_store_;
  std::string key_;
  std::int64_t held_ = 0;
  std::optional<std::string> sent_;  // what this rank has sent in round `held_`
  std::vector<std::optional<std::string>> received_;
  ForkGuard fork_guard_;
};

}  // namespace

std::vector<std::optional<std::string>> read_frames(PeerTextReader frames, int size) {
  std::vector<std::optional<std::string>> texts(static_cast<std::size_t>(size));
  while (!frames.ended()) {
    const std::int64_t rank = frames.integer("a rank", 0, size - 1);
    const std::string_view text = frames.string("the text of a rank");
    auto& known = texts[static_cast<std::size_t>(rank)];
    if (known && *known != text)
      frames.fail("the text of a rank", "sent once", "there twice for rank " + std::to_string(rank));
    known = text;
  }
  return texts;
}

std::unique_ptr<AllGather> all_gather_over_store(KeyValueStorePtr kv_store, std::string key) {
  return std::make_unique<StoreAllGather>(std::move(kv_store), std::move(key));
}

}  // namespace torch_distinput
