// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/heartbeat_monitor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/process_owned.h"
#include "comm/peer_text.h"
#include "comm/waiting.h"
#include "distribute/coordination/heartbeat_text.h"
#include "distribute/coordination/liveness_timer.h"
#include "runtime/worker_thread.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr const char* kGone = "gone";
constexpr std::int64_t kNoStep = -1;
constexpr std::chrono::seconds kRequestWithin{10};
/// Heartbeats within a timeout: several, because some may be late on a busy machine.
constexpr double kHeartbeatsPerTimeout = 4;
/// The shortest interval between heartbeats, however short the timeout.
constexpr std::chrono::milliseconds kShortestInterval{10};
/// Missed heartbeats after which a rank has failed, if that takes longer than the timeout.
constexpr double kMaxMissedHeartbeats = 3;

/// What `rank` set under `key`, for messages.
std::string whose_text(const std::string& rank, const std::string& key) {
  return "the text of " + rank + " under `" + key + "`";
}

/// `time` in seconds; below two seconds with one decimal place.
std::string text_of(Seconds time) {
  std::ostringstream text;
  text << (time < std::chrono::seconds{2} ? std::round(10 * time.count()) / 10 : std::round(time.count()));
  return text.str();
}

struct Watched {
  Watched(std::string iterator_key, Seconds peer_timeout)
      : key(std::move(iterator_key)), timeout(peer_timeout) {}

  std::string key;
  Seconds timeout;
  PeerNews news;
  // A step takes no lock and reads no clock: the monitor's thread reads the counter and notes the time.
  std::atomic<bool> has_news{false};
  std::atomic<std::int64_t> entries{-1};    // of the link, when the news were read
  std::atomic<std::int64_t> step{kNoStep};  // the last one taken
  std::int64_t seen_step = kNoStep;
  std::optional<std::chrono::steady_clock::time_point> left_at;  // when this rank learned of `news.left`
  bool warned = false;

  std::string failed_key() const { return key + "/failed"; }
  std::string left_key() const { return key + "/left"; }
};

/// The step that this process took last, of any iterator, and when that was seen.
struct Activity {
  std::shared_ptr<Watched> iterator;  // null: none
  std::int64_t step = 0;
  std::chrono::steady_clock::time_point at;

  std::string str() const {
    if (!iterator) return "has not taken a step yet";
    const auto ago = std::chrono::steady_clock::now() - at;
    return "took step " + std::to_string(step) + " of " + iterator->key + " " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(ago).count()) + " s ago";
  }
};

/// What the monitor's thread and the iterators share. `mutex` guards all of it, also `news` and `seen_step`.
struct MonitoredIterators {
  std::mutex mutex;
  Activity activity;
  std::condition_variable changed;
  bool stopped = false;
  std::vector<std::shared_ptr<Watched>> all;

  /// REQUIRES: the mutex is held.
  void see_step(const std::shared_ptr<Watched>& watched) {
    const std::int64_t step = watched->step.load(std::memory_order_relaxed);
    if (std::exchange(watched->seen_step, step) != step)
      activity = {watched, step, std::chrono::steady_clock::now()};
  }

  std::vector<std::shared_ptr<Watched>> snapshot() {
    const std::lock_guard lock(mutex);
    return all;
  }

  /// The shortest timeout of all iterators. REQUIRES: the mutex is held.
  Seconds shortest_timeout() const {
    Seconds shortest = Seconds::max();
    for (const auto& watched : all) shortest = std::min(shortest, watched->timeout);
    return shortest;
  }
  /// The time between two heartbeats, at most `longest`. REQUIRES: the mutex is held.
  Seconds interval(Seconds longest) const {
    return std::min(longest,
                    std::max<Seconds>(shortest_timeout() / kHeartbeatsPerTimeout, kShortestInterval));
  }
};

/// Reads what has come for an iterator, if anything has since the last time.
void read_news(GroupLink& link, MonitoredIterators& list, Watched& watched) {
  const std::int64_t entries = link.entries();
  if (watched.entries.load(std::memory_order_acquire) == entries) return;
  const auto failed = link.find(watched.failed_key());
  const auto left = link.find(watched.left_key());
  std::optional<Leaving> leaving;
  std::string failure = failed.value_or("");
  try {
    if (left) leaving = Leaving::decode({*left, whose_text("a rank", watched.left_key())}, link.size());
  } catch (const PeerTextError& error) {
    failure = error.what_without_backtrace();
  }
  const std::lock_guard lock(list.mutex);
  if (watched.news.failure.empty()) watched.news.failure = failure;
  if (leaving) watched.news.left = leaving;
  if (failed || left) watched.has_news.store(true, std::memory_order_release);
  watched.entries.store(entries, std::memory_order_release);
}

class Handle final : public MonitoredIterator {
 public:
  Handle(GroupLinkPtr link, std::shared_ptr<ProcessOwned<MonitoredIterators>> list,
         std::shared_ptr<HeartbeatMonitor> watch, std::shared_ptr<Watched> watched)
      : link_(std::move(link)),
        list_(std::move(list)),
        watch_(std::move(watch)),
        watched_(std::move(watched)) {
    link_->open(watched_->key);
    const std::lock_guard lock((*list_)->mutex);
    (*list_)->all.push_back(watched_);
    // A short timeout needs heartbeats more often.
    (*list_)->changed.notify_all();
  }
  ~Handle() override {
    if (list_->inherited()) return;
    const std::lock_guard lock((*list_)->mutex);
    (*list_)->see_step(watched_);
    std::erase((*list_)->all, watched_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  PeerNews news() const override {
    if (list_->inherited()) return {};
    read_news(*link_, **list_, *watched_);
    if (!watched_->has_news.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock((*list_)->mutex);
    return watched_->news;
  }
  void fail(const std::string& message) noexcept override {
    link_->post(watched_->failed_key(), "rank " + std::to_string(link_->rank()) + " failed: " + message);
  }
  void leave(std::int64_t step) noexcept override {
    link_->post(watched_->left_key(), Leaving{link_->rank(), step}.encode());
  }
  void took(std::int64_t step) noexcept override { watched_->step.store(step, std::memory_order_relaxed); }
  void end() noexcept override { link_->end(watched_->key); }

 private:
  GroupLinkPtr link_;
  std::shared_ptr<ProcessOwned<MonitoredIterators>> list_;
  std::shared_ptr<HeartbeatMonitor> watch_;  // keeps the thread alive
  std::shared_ptr<Watched> watched_;
};

class ThreadedHeartbeatMonitor final : public HeartbeatMonitor,
                                       public std::enable_shared_from_this<ThreadedHeartbeatMonitor> {
 public:
  ThreadedHeartbeatMonitor(GroupLinkPtr link, std::chrono::milliseconds interval)
      : link_(std::move(link)),
        kv_store_(link_->store()),
        longest_(interval),
        next_((kv_store_->rank() + 1) % kv_store_->size()),
        list_(std::make_shared<ProcessOwned<MonitoredIterators>>(std::make_shared<MonitoredIterators>())),
        thread_("tdi-peers", [this] { run(); }) {}

  ~ThreadedHeartbeatMonitor() override {
    if (list_->inherited()) return;
    const std::lock_guard lock((*list_)->mutex);
    (*list_)->stopped = true;
    (*list_)->changed.notify_all();
  }

  std::unique_ptr<MonitoredIterator> watch(const std::string& key, Seconds timeout) override {
    auto watched = std::make_shared<Watched>(key, timeout);
    return std::make_unique<Handle>(link_, list_, shared_from_this(), std::move(watched));
  }

  std::string activity(int rank) override {
    const auto heartbeat = kv_store_->multi_get({heartbeat_key(rank)});
    if (!heartbeat) return "has sent no heartbeat yet";
    return heartbeat->front() == kGone ? "has gone" : read(rank, heartbeat->front()).activity;
  }

 private:
  /// Thrown to end the wait for a store that does not answer when the monitor is destroyed.
  struct Stopped {};

  void run() noexcept {
    {
      const InterruptScope unless_stopped([this] {
        if (stopped()) throw Stopped();
      });
      try {
        do {
          look_or_blame_store();
        } while (!stopped_after_interval());
      } catch (const Stopped&) {
      }
    }
    const BriefWait brief;
    try {
      kv_store_->set(heartbeat_key(kv_store_->rank()), kGone);
    } catch (const std::exception&) {
      return;  // the store is lost, so no rank can be told
    }
  }

  bool stopped() {
    const std::lock_guard lock((*list_)->mutex);
    return (*list_)->stopped;
  }

  bool stopped_after_interval() {
    std::unique_lock lock((*list_)->mutex);
    MonitoredIterators& list = **list_;
    list.changed.wait_for(lock, interval_,
                          [&] { return list.stopped || list.interval(longest_) < interval_; });
    return list.stopped;
  }

  void look_or_blame_store() {
    const Seconds slept_at_most = 2 * interval_;
    Seconds shortest_timeout{};
    {
      const std::lock_guard lock((*list_)->mutex);
      interval_ = (*list_)->interval(longest_);
      shortest_timeout = (*list_)->shortest_timeout();
    }
    store_liveness_.goes_on_if_begun(slept_at_most);
    std::string trouble;
    try {
      look(slept_at_most);
    } catch (const PeerTextError& error) {
      for (const auto& watched : (*list_)->snapshot()) fail(*watched, error.what_without_backtrace());
    } catch (const c10::Error& error) {
      trouble = error.what_without_backtrace();
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    if (trouble.empty()) return store_liveness_.ends();
    // No call of the store takes longer than the shortest timeout.
    store_liveness_.goes_on(shortest_timeout);
    blame(store_liveness_.length(), Seconds{}, "the store could not be reached for", trouble);
  }

  void look(Seconds slept_at_most) {
    const Heartbeat mine{++heartbeat_, std::chrono::ceil<std::chrono::milliseconds>(interval_),
                         own_activity()};
    kv_store_->set(heartbeat_key(kv_store_->rank()), mine.encode());
    listen(slept_at_most);
    for (const auto& watched : (*list_)->snapshot()) {
      read_news(*link_, **list_, *watched);
      warn_if_no_request(*watched);
    }
  }

  /// Checks for a heartbeat of the next rank.
  void listen(Seconds slept_at_most) {
    const auto heartbeat = kv_store_->multi_get({heartbeat_key(next_)});
    if (!heartbeat || heartbeat->front() == kGone) return next_liveness_.ends();
    const Heartbeat read = this->read(next_, heartbeat->front());
    if (std::exchange(last_heartbeat_, heartbeat->front()) != heartbeat->front())
      return next_liveness_.ends();
    next_liveness_.goes_on(slept_at_most);
    blame(next_liveness_.length(), kMaxMissedHeartbeats * read.next,
          "rank " + std::to_string(next_) + " sent no heartbeat for", "");
  }

  static Heartbeat read(int rank, const std::string& text) {
    return Heartbeat::decode({text, whose_text(name_ranks({rank}), heartbeat_key(rank))});
  }

  std::string own_activity() {
    const std::lock_guard lock((*list_)->mutex);
    for (const auto& watched : (*list_)->all) (*list_)->see_step(watched);
    return (*list_)->activity.str();
  }

  /// Warns if this rank does not request its next step, which would throw that a peer has left: the user's
  /// code may be waiting for that peer in a collective.
  void warn_if_no_request(Watched& watched) {
    const std::lock_guard lock((*list_)->mutex);
    if (!watched.news.left) return;
    const auto now = std::chrono::steady_clock::now();
    if (!watched.left_at) watched.left_at = now;
    if (now - *watched.left_at < kRequestWithin || std::exchange(watched.warned, true)) return;
    TORCH_WARN("DistributedIterator: rank ", watched.news.left->rank, " left its loop after ",
               watched.news.left->step, " steps. Rank ", kv_store_->rank(),
               " has not asked for a step since; if it waits in a collective for rank ",
               watched.news.left->rank, ", that rank will not join it.");
  }

  /// Fails the iterators whose timeout is shorter than `silence`; none if `silence` is shorter than `least`.
  void blame(Seconds silence, Seconds least, const std::string& what, const std::string& why) {
    for (const auto& watched : (*list_)->snapshot()) {
      if (silence < std::max(watched->timeout, least)) continue;
      fail(*watched, what + " " + text_of(silence) + " s" + (why.empty() ? "" : " (" + why + ")"));
    }
  }

  /// Fails an iterator, unless it has failed, here and on the other ranks.
  void fail(Watched& watched, const std::string& text) {
    {
      const std::lock_guard lock((*list_)->mutex);
      if (!watched.news.failure.empty()) return;
      watched.news.failure = text;
      watched.has_news.store(true, std::memory_order_release);
    }
    link_->post(watched.failed_key(), text);
  }

  GroupLinkPtr link_;
  KeyValueStorePtr kv_store_;
  Seconds longest_;
  Seconds interval_ = longest_;  // of this rank's heartbeats
  int next_;
  std::int64_t heartbeat_ = 0;
  std::string last_heartbeat_;
  LivenessTimer next_liveness_;
  LivenessTimer store_liveness_;
  std::shared_ptr<ProcessOwned<MonitoredIterators>> list_;
  WorkerThread thread_;  // last, because it uses the others
};

}  // namespace

std::shared_ptr<HeartbeatMonitor> start_heartbeat_monitor(GroupLinkPtr link,
                                                          std::chrono::milliseconds interval) {
  return std::make_shared<ThreadedHeartbeatMonitor>(std::move(link), interval);
}

}  // namespace torch_distinput
