// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/store_communicator.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <exception>
#include <utility>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

const std::string kNone;

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// Calls the store. Its own errors name addresses, but neither the rank nor what the store is for.
template <class Call>
auto reach(int rank, const Call& call) {
  std::string why;
  try {
    return call();
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  } catch (const std::exception& error) {
    why = error.what();
  }
  throw DistributedDatasetError("rank " + std::to_string(rank) +
                                " lost the store of the process group, whose host may have ended: " + why);
}

class StoreCommunicator final : public Communicator {
 public:
  explicit StoreCommunicator(const ProcessGroup& group)
      : store_(group.store),
        prefix_("torch_distinput/" + group.name + "/"),
        rank_(group.rank),
        size_(group.size) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  void post(const std::string& key, const std::string& text) override {
    reach(rank_, [&] { store_->set(prefix_ + key, text); });
  }

  std::string post_first(const std::string& key, const std::string& text) override {
    return reach(rank_, [&] { return swap(key, kNone, text); });
  }

  void append(const std::string& key, const std::string& text) override {
    reach(rank_, [&] {
      if (store_->hasExtendedApi()) return store_->append(prefix_ + key, bytes_of(text));
      std::string there;
      for (std::string seen = swap(key, there, text); seen != there + text;
           seen = swap(key, there, there + text))
        there = seen;
    });
  }

  std::optional<std::vector<std::string>> look(const std::vector<std::string>& keys) override {
    if (keys.size() == 1) return look_at(keys.front());
    std::vector<std::string> full;
    for (const auto& key : keys) full.push_back(prefix_ + key);
    return reach(rank_, [&]() -> std::optional<std::vector<std::string>> {
      if (!store_->check(full)) return std::nullopt;
      std::vector<std::string> texts;
      if (store_->hasExtendedApi()) {
        for (const auto& bytes : store_->multiGet(full)) texts.push_back(text_of(bytes));
      } else {
        for (const auto& key : full) texts.push_back(text_of(store_->get(key)));
      }
      return texts;
    });
  }

  std::int64_t add(const std::string& key, std::int64_t value) override {
    return reach(rank_, [&] { return store_->add(prefix_ + key, value); });
  }

  void remove(const std::string& key) override {
    reach(rank_, [&] { return store_->deleteKey(prefix_ + key); });
  }

 private:
  /// Puts `text` in the place of `there`; returns what is under `key` then. `kNone` stands for a key that is
  /// not there; where it is not and another text is expected, the store puts nothing and returns `there`.
  std::string swap(const std::string& key, const std::string& there, const std::string& text) {
    return store_->compareSet(prefix_ + key, there, text);
  }

  /// One message to the store and one back, where asking for a key and then for its text takes three of each.
  std::optional<std::vector<std::string>> look_at(const std::string& key) {
    static const std::string nobodys = "\x01";
    std::string text = reach(rank_, [&] { return swap(key, nobodys, nobodys); });
    if (text == nobodys) return std::nullopt;
    return std::vector{std::move(text)};
  }

  std::shared_ptr<c10d::Store> store_;
  std::string prefix_;
  int rank_;
  int size_;
};

}  // namespace

CommunicatorPtr store_communicator(const ProcessGroup& group) {
  return std::make_shared<StoreCommunicator>(group);
}

}  // namespace torch_distinput
