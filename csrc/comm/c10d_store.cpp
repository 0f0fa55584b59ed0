// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/c10d_store.h"

#include <exception>
#include <mutex>
#include <type_traits>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/restarts.h"
#include "comm/timed_caller.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// No text. Literals, not std::string, because a call may outlive static objects.
constexpr const char* kNone = "";
/// A text that no rank sets.
constexpr const char* kNeverSet = "\x01";

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

class C10dStore final : public KeyValueStore {
 public:
  explicit C10dStore(const ProcessGroup& group)
      : connection_(std::make_shared<Connection>(group.store)),
        prefix_("torch_distinput/" + group.name + "/"),
        rank_(group.rank),
        size_(group.size) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  void expect_within(std::chrono::duration<double> limit) override { timed_caller_.expect_within(limit); }

  void set(const std::string& key, const std::string& text) override {
    reach([key = prefix_ + key, text](c10d::Store& store) { store.set(key, text); });
  }

  std::string compare_set(const std::string& key, const std::string& text) override {
    return reach([key = prefix_ + key, text](c10d::Store& store) { return swap(store, key, kNone, text); });
  }

  void append(const std::string& key, const std::string& text) override {
    reach([key = prefix_ + key, text](c10d::Store& store) {
      if (store.hasExtendedApi()) return store.append(key, bytes_of(text));
      std::string there;
      for (std::string seen = swap(store, key, there, text); seen != there + text;
           seen = swap(store, key, there, there + text))
        there = seen;
    });
  }

  std::optional<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) override {
    if (keys.size() == 1) return look_at(keys.front());
    std::vector<std::string> full;
    for (const auto& key : keys) full.push_back(prefix_ + key);
    return reach([full = std::move(full)](c10d::Store& store) -> std::optional<std::vector<std::string>> {
      if (!store.check(full)) return std::nullopt;
      std::vector<std::string> texts;
      if (store.hasExtendedApi()) {
        for (const auto& bytes : store.multiGet(full)) texts.push_back(text_of(bytes));
      } else {
        for (const auto& key : full) texts.push_back(text_of(store.get(key)));
      }
      return texts;
    });
  }

  std::optional<std::string> await(const std::string& key, std::chrono::milliseconds limit) override {
    // A wait blocks its connection.
    if (!waiting_) waiting_ = connection_->shared->clone();
    const auto end = std::chrono::steady_clock::now() + limit;
    try {
      try {
        waiting_->wait({prefix_ + key}, limit);
      } catch (const c10::Error&) {  // of other types in other stores
        if (std::chrono::steady_clock::now() < end) throw;
        return std::nullopt;
      }
      std::string text = swap(*waiting_, prefix_ + key, kNeverSet, kNeverSet);
      if (text == kNeverSet) return std::nullopt;
      return text;
    } catch (const c10::Error& error) {
      throw_lost(lose(error.what_without_backtrace()));
    } catch (const std::exception& error) {
      throw_lost(lose(error.what()));
    }
  }

  std::int64_t add(const std::string& key, std::int64_t value) override {
    return reach([key = prefix_ + key, value](c10d::Store& store) { return store.add(key, value); });
  }

  void remove(const std::string& key) override {
    reach([key = prefix_ + key](c10d::Store& store) { return store.deleteKey(key); });
  }

 private:
  /// The library's own connection, so that its calls never wait for the user's. Made at the first call: most
  /// processes of a host make none.
  struct Connection {
    explicit Connection(std::shared_ptr<c10d::Store> of_group) : shared(std::move(of_group)) {}

    /// REQUIRES: one thread at a time.
    c10d::Store& own_store() {
      if (!own) own = shared->clone();
      return *own;
    }

    std::shared_ptr<c10d::Store> shared;
    c10::intrusive_ptr<c10d::Store> own;
  };

  /// Replaces `there` by `text` and returns the text under `key` afterwards. `kNone` means that there is no
  /// such key. If there is none and another text is expected, the store sets nothing and returns `there`.
  static std::string swap(c10d::Store& store, const std::string& key, const std::string& there,
                          const std::string& text) {
    return store.compareSet(key, there, text);
  }

  /// A compare-set takes one message to the store and one back; checking a key and then getting its text
  /// takes three of each.
  std::optional<std::vector<std::string>> look_at(const std::string& key) {
    std::string text =
        reach([key = prefix_ + key](c10d::Store& store) { return swap(store, key, kNeverSet, kNeverSet); });
    if (text == kNeverSet) return std::nullopt;
    return std::vector{std::move(text)};
  }

  /// Calls the store and adds the rank and the store's purpose to its errors, which name addresses alone.
  template <class Call>
  std::invoke_result_t<Call&, c10d::Store&> reach(Call call) {
    std::string why = lost();
    try {
      if (!why.empty()) throw NoAnswer(why);
      auto answer = timed_caller_.run(
          [connection = connection_, call = std::move(call)] { return call(connection->own_store()); });
      try {
        return answer.get();
      } catch (const c10::DistNetworkError& error) {
        why = lose(error.what_without_backtrace());
      } catch (const c10::Error& error) {
        why = error.what_without_backtrace();
      } catch (const std::exception& error) {
        why = error.what();
      }
    } catch (const NoAnswer& error) {
      why = error.what();
    }
    throw_lost(why);
  }

  [[noreturn]] void throw_lost(const std::string& why) const {
    throw DistributedDatasetError("rank " + std::to_string(rank_) +
                                  " lost the store of the process group, whose host may have ended: " + why +
                                  advice_after_restart());
  }

  /// After an error of the connection no call may follow: c10d does not connect again, the next answer could
  /// be the rest of this one, and c10d logs each failure with a page of stack frames.
  std::string lose(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = why;
    return lost_;
  }
  std::string lost() {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

  std::shared_ptr<Connection> connection_;
  c10::intrusive_ptr<c10d::Store> waiting_;  // of `await`
  std::string prefix_;
  int rank_;
  int size_;
  TimedCaller timed_caller_;
  std::mutex mutex_;
  std::string lost_;  // why no call can be made any more; empty: calls can
};

}  // namespace

KeyValueStorePtr c10d_store(const ProcessGroup& group) { return std::make_shared<C10dStore>(group); }

}  // namespace torch_distinput
