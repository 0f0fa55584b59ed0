// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/fork_guard.h"
#include "comm/all_gather.h"
#include "comm/peer_text.h"
#include "comm/restarts.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// The texts of most rounds are counts, about ten bytes for each step; longer ones go through the store.
constexpr std::int64_t kMaxBytes = 1024;
/// Values in the place of a length: the text is in the store; the rank has left.
constexpr std::int64_t kInStore = -1;
constexpr std::int64_t kGone = -2;

/// One collective: what this rank sends, and the buffers that receive the texts of all ranks.
struct Gathering {
  std::vector<at::Tensor> mine;
  std::vector<std::vector<at::Tensor>> all;
  c10::intrusive_ptr<c10d::Work> work;
};

/// A buffer to send. `length`: of `text`, or kInStore or kGone.
at::Tensor write(std::int64_t length, const std::string& text) {
  at::Tensor buffer = at::empty({static_cast<std::int64_t>(sizeof(length)) + kMaxBytes}, at::kByte);
  auto* const bytes = buffer.mutable_data_ptr<std::uint8_t>();
  std::memset(bytes, 0, static_cast<std::size_t>(buffer.numel()));
  std::memcpy(bytes, &length, sizeof(length));
  if (length > 0) std::memcpy(bytes + sizeof(length), text.data(), static_cast<std::size_t>(length));
  return buffer;
}

std::int64_t length_of(const at::Tensor& buffer) {
  std::int64_t length = 0;
  std::memcpy(&length, buffer.const_data_ptr<std::uint8_t>(), sizeof(length));
  return length;
}

std::string text_of(const at::Tensor& buffer, std::int64_t length) {
  const auto* const bytes = buffer.const_data_ptr<std::uint8_t>() + sizeof(length);
  return {bytes, bytes + length};
}

class GroupAllGather final : public AllGather {
 public:
  GroupAllGather(KeyValueStorePtr kv_store, std::string key, c10::intrusive_ptr<c10d::ProcessGroup> group)
      : kv_store_(std::move(kv_store)), key_(std::move(key)), group_(std::move(group)) {}

  ~GroupAllGather() override {
    if (fork_guard_.inherited()) {
      // The threads of the group are the parent's.
      group_.release();
      if (under_way_) new std::shared_ptr<Gathering>(std::move(under_way_));
      return;
    }
    try {
      remove_own_keys();
      if (!under_way_ && broken_.empty()) start(write(kGone, ""));
      if (!under_way_) return;
      std::thread([group = std::move(group_), gathering = std::move(under_way_)] {
        try {
          gathering->work->wait();
        } catch (const std::exception&) {
          return;  // the other ranks have left as well
        }
      }).detach();
    } catch (const std::exception&) {
      return;  // the store or the group is lost, so no rank can be told
    }
  }
  GroupAllGather(const GroupAllGather&) = delete;
  GroupAllGather& operator=(const GroupAllGather&) = delete;

  std::vector<std::string> run(const std::string& text, const WaitOptions& wait_options) override {
    if (!broken_.empty()) blame(wait_options);
    if (!under_way_) send(text);
    wait_until(
        kv_store_->rank(), [this] { return under_way_->work->isCompleted(); }, [this] { return missing(); },
        wait_options);
    try {
      under_way_->work->wait();
    } catch (const c10::Error& error) {
      broken_ = error.what_without_backtrace();
    } catch (const std::exception& error) {
      broken_ = error.what();
    }
    if (!broken_.empty()) {
      under_way_.reset();
      blame(wait_options);
    }
    std::vector<std::string> texts;
    for (int rank = 0; rank < kv_store_->size(); ++rank)
      texts.push_back(read(rank, under_way_->all.front()[static_cast<std::size_t>(rank)], wait_options));
    under_way_.reset();
    remove_old_texts();
    ++held_;
    return texts;
  }

 private:
  std::string entered_key(int rank) const { return key_ + "/entered/" + std::to_string(rank); }
  std::string text_key(std::int64_t round, int rank) const {
    return key_ + "/text/" + std::to_string(round) + "/" + std::to_string(rank);
  }

  /// The number in `text`, which rank `rank` set under its `entered_key`.
  std::int64_t rounds_entered(int rank, const std::string& text) const {
    PeerTextReader reader(text, whose(rank, entered_key(rank)));
    const std::int64_t rounds =
        reader.integer("the rounds entered", 1, std::numeric_limits<std::int64_t>::max());
    reader.end();
    return rounds;
  }

  static std::string whose(int rank, const std::string& key) {
    return "DistributedDataset: the text of rank " + std::to_string(rank) + " under `" + key + "`";
  }

  void send(const std::string& text) {
    const int rank = kv_store_->rank();
    const bool is_long = std::ssize(text) > kMaxBytes;
    if (is_long) {
      kv_store_->set(text_key(held_, rank), text);
      in_store_.push_back(held_);
    }
    PeerTextWriter entered;
    entered.integer(held_ + 1);
    kv_store_->set(entered_key(rank), entered.take());
    start(write(is_long ? kInStore : std::ssize(text), text));
  }

  void start(at::Tensor mine) {
    auto gathering = std::make_shared<Gathering>();
    gathering->all.emplace_back();
    for (int rank = 0; rank < kv_store_->size(); ++rank)
      gathering->all.front().push_back(at::empty_like(mine));
    gathering->mine = {std::move(mine)};
    c10d::AllgatherOptions options;
    // A slow rank has not failed: heartbeats decide whether a rank lives, not the group's timeout.
    options.timeout = std::chrono::hours(24 * 365);
    gathering->work = group_->allgather(gathering->all, gathering->mine, options);
    under_way_ = std::move(gathering);
  }

  /// The ranks that have not entered this round.
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < kv_store_->size(); ++rank) {
      const auto entered = kv_store_->multi_get({entered_key(rank)});
      if (!entered || rounds_entered(rank, entered->front()) <= held_) ranks.push_back(rank);
    }
    return ranks;
  }

  std::string read(int rank, const at::Tensor& buffer, const WaitOptions& wait_options) {
    const std::int64_t length = length_of(buffer);
    if (length == kGone) {
      under_way_.reset();
      broken_ = "rank " + std::to_string(rank) + " left its loop";
      blame(wait_options);
    }
    if (length == kInStore) return read_from_store(rank, wait_options);
    if (length < 0 || length > kMaxBytes) {
      PeerTextReader("", "DistributedDataset: rank " + std::to_string(rank) + " in a round of the group")
          .fail("the length of a text", "an integer in [0, " + std::to_string(kMaxBytes) + "]",
                std::to_string(length));
    }
    return text_of(buffer, length);
  }

  /// Waits for the text, because the collective that announces it may complete before the store shows it.
  std::string read_from_store(int rank, const WaitOptions& wait_options) {
    std::optional<std::vector<std::string>> texts;
    wait_until(
        kv_store_->rank(),
        [&] { return (texts = kv_store_->multi_get({text_key(held_, rank)})).has_value(); },
        [rank] { return std::vector{rank}; }, wait_options);
    return std::move(texts->front());
  }

  /// Removes texts of earlier rounds: this round is over, so every rank has read them.
  void remove_old_texts() {
    for (; !in_store_.empty() && in_store_.front() < held_; in_store_.pop_front())
      kv_store_->remove(text_key(in_store_.front(), kv_store_->rank()));
  }

  /// Removes this rank's keys. The last rank that leaves removes texts that others may still read until then.
  void remove_own_keys() const {
    const BriefWait brief;
    kv_store_->remove(entered_key(kv_store_->rank()));
    std::string left;
    for (const std::int64_t round : in_store_) left += text_key(round, kv_store_->rank()) + "\n";
    if (!left.empty()) kv_store_->append(key_ + "/left", left);
    if (kv_store_->add(key_ + "/gone", 1) < kv_store_->size()) return;
    kv_store_->remove(key_ + "/gone");
    const auto texts = kv_store_->multi_get({key_ + "/left"});
    if (!texts) return;
    std::istringstream keys(texts->front());
    const std::string ours = key_ + "/text/";
    for (std::string key; std::getline(keys, key);)
      if (key.starts_with(ours)) kv_store_->remove(key);
    kv_store_->remove(key_ + "/left");
  }

  /// Throws. The group reports that a rank has gone, but not which or why; the heartbeat monitor finds out,
  /// and `wait_options.check` throws what it found. So this gives it kBlameAfter.
  [[noreturn]] void blame(const WaitOptions& wait_options) const {
    const auto deadline = std::chrono::steady_clock::now() + kBlameAfter;
    while (std::chrono::steady_clock::now() < deadline) {
      wait_options.check();
      if (const auto& check = interrupt_check()) check();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    throw DistributedDatasetError(wait_options.what + ": rank " + std::to_string(kv_store_->rank()) +
                                  " lost its process group: " + broken_ + advice_after_restart());
  }

  static constexpr std::chrono::seconds kBlameAfter{20};

  KeyValueStorePtr kv_store_;
  std::string key_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<Gathering> under_way_;
  std::deque<std::int64_t> in_store_;  // rounds whose text of this rank is in the store
  std::int64_t held_ = 0;
  std::string broken_;  // why the group cannot be used any more; empty: it can
  ForkGuard fork_guard_;
};

}  // namespace

std::unique_ptr<AllGather> all_gather_over_group(KeyValueStorePtr kv_store, const std::string& key,
                                                 const ProcessGroup::MakeGroup& make,
                                                 const WaitOptions& wait_options) {
  // Rank 0's random text becomes the group's name, which no earlier group in the same store had.
  const std::string mine =
      std::to_string(std::random_device{}()) + "-" + std::to_string(std::random_device{}());
  const std::string name_key = key + "/group";
  std::string name;
  try {
    name = exchange_all(*kv_store, name_key, mine, wait_options).front();
  } catch (const DistributedDatasetError&) {
    give_up(*kv_store, name_key);
    throw;
  }
  return std::make_unique<GroupAllGather>(std::move(kv_store), key, make(name, wait_options.timeout));
}

}  // namespace torch_distinput
