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
#include "comm/heartbeat.h"
#include "comm/peer_text.h"
#include "comm/waiting.h"
#include "distribute/coordination/loss_watch.h"
#include "runtime/worker_thread.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::int64_t kNoStep = -1;
constexpr std::chrono::seconds kRequestWithin{10};
/// Heartbeats within a timeout: several, because some may be late on a busy machine.
constexpr double kHeartbeatsPerTimeout = 4;
/// The shortest interval between heartbeats, however short the timeout.
constexpr std::chrono::milliseconds kShortestInterval{10};

/// A member of the host whose leader is silent for this time sends the host's heartbeat in its place.
constexpr std::chrono::seconds kStandInAfter{2};

std::string whose_text(const std::string& key) { return "the text under `" + key + "`"; }

/// `time` in seconds; below two seconds with one decimal place.
std::string text_of(Seconds time) {
  std::ostringstream text;
  text << (time < std::chrono::seconds{2} ? std::round(10 * time.count()) / 10 : std::round(time.count()));
  return text.str();
}

struct Watched {
  Watched(std::string iterator_key, Seconds peer_timeout, Seconds silence_of_hosts)
      : key(std::move(iterator_key)),
        timeout(peer_timeout),
        host_timeout(std::min(peer_timeout, silence_of_hosts)) {}

  std::string key;
  Seconds timeout;
  Seconds host_timeout;
  PeerNews news;
  // A step takes no lock and reads no clock: the monitor's thread reads the counter and notes the time.
  std::atomic<bool> has_news{false};
  std::atomic<std::int64_t> entries{-1};    // of the link, when the news were read
  std::atomic<std::int64_t> step{kNoStep};  // the last one taken
  std::int64_t seen_step = kNoStep;
  std::optional<std::chrono::steady_clock::time_point> left_at;  // when this rank learned of `news.left`
  bool warned = false;

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

  /// The shortest of the timeouts `which` of all iterators. REQUIRES: the mutex is held.
  Seconds shortest(Seconds Watched::* which) const {
    Seconds shortest = Seconds::max();
    for (const auto& watched : all) shortest = std::min(shortest, (*watched).*which);
    return shortest;
  }
  /// The time between two heartbeats, at most `longest`. REQUIRES: the mutex is held.
  Seconds interval(Seconds longest) const {
    return std::min(longest, std::max<Seconds>(shortest(&Watched::host_timeout) / kHeartbeatsPerTimeout,
                                               kShortestInterval));
  }
};

/// Reads what has come for an iterator, if anything has since the last time.
void read_news(GroupLink& link, MonitoredIterators& list, Watched& watched) {
  const std::int64_t entries = link.entries();
  if (watched.entries.load(std::memory_order_acquire) == entries) return;
  const auto failed = link.find(failed_key(watched.key));
  const auto left = link.find(watched.left_key());
  std::optional<Leaving> leaving;
  std::string failure = failed.value_or(link.lost());
  try {
    if (left) leaving = Leaving::decode({*left, whose_text(watched.left_key())}, link.size());
  } catch (const PeerTextError& error) {
    failure = error.what_without_backtrace();
  }
  const std::lock_guard lock(list.mutex);
  if (watched.news.failure.empty()) watched.news.failure = failure;
  if (leaving) watched.news.left = leaving;
  if (!failure.empty() || left) watched.has_news.store(true, std::memory_order_release);
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
    link_->post(failed_key(watched_->key), "rank " + std::to_string(link_->rank()) + " failed: " + message);
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
        longest_(interval),
        list_(std::make_shared<ProcessOwned<MonitoredIterators>>(std::make_shared<MonitoredIterators>())),
        thread_("tdi-peers", [this] { run(); }) {}

  ~ThreadedHeartbeatMonitor() override {
    if (list_->inherited()) return;
    const std::lock_guard lock((*list_)->mutex);
    (*list_)->stopped = true;
    (*list_)->changed.notify_all();
  }

  std::unique_ptr<MonitoredIterator> watch(const std::string& key, Seconds timeout,
                                           Seconds host_timeout) override {
    auto watched = std::make_shared<Watched>(key, timeout, host_timeout);
    return std::make_unique<Handle>(link_, list_, shared_from_this(), std::move(watched));
  }

 private:
  /// Thrown to end the wait for a store that does not answer when the monitor is destroyed.
  struct Stopped {};

  void run() noexcept {
    const InterruptScope unless_stopped([this] {
      if (stopped()) throw Stopped();
    });
    try {
      do {
        look();
      } while (!stopped_after_interval());
    } catch (const Stopped&) {
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

  void look() {
    const Seconds slept_at_most = 2 * interval_;
    {
      const std::lock_guard lock((*list_)->mutex);
      interval_ = (*list_)->interval(longest_);
      timeout_ = (*list_)->shortest(&Watched::timeout);
      host_timeout_ = (*list_)->shortest(&Watched::host_timeout);
    }
    link_->beat(own_activity(), next());
    try {
      listen_here(slept_at_most);
      if (link_->speaks()) listen_to_next(slept_at_most);
    } catch (const PeerTextError& error) {
      for (const auto& watched : (*list_)->snapshot()) fail(*watched, error.what_without_backtrace());
    } catch (const std::exception&) {
      // The store is lost: the link, which uses it as well, finds that and says why.
    }
    for (const auto& watched : (*list_)->snapshot()) {
      read_news(*link_, **list_, *watched);
      warn_if_no_request(*watched);
    }
  }

  std::chrono::milliseconds next() const { return std::chrono::ceil<std::chrono::milliseconds>(interval_); }

  /// Checks for signs of life of other ranks of this host: of all, where this one leads, else of the leader.
  void listen_here(Seconds slept_at_most) {
    for (const auto& [rank, scopes, at, name] : link_->heard()) {
      const auto silence = losses_.check_rank(rank, at, interval_, Clock::now(), slept_at_most, timeout_);
      if (silence.lost)
        link_->report_lost(scopes, name + " sent no heartbeat for " + text_of(silence.length) + " s");
      else if (!link_->speaks() && link_->hosts() > 1 && silence.length > kStandInAfter)
        stand_in();
    }
  }

  /// Sends the heartbeat of this host, whose leader does not: other hosts must not take it for lost.
  void stand_in() {
    Heartbeat heartbeat{.number = ++stood_in_, .next = next(), .scopes = link_->scopes()};
    link_->store()->set(heartbeat_key(link_->host()), heartbeat.encode());
  }

  /// Checks for a heartbeat of the next host.
  void listen_to_next(Seconds slept_at_most) {
    const std::int64_t host = (link_->host() + 1) % link_->hosts();
    if (host == link_->host()) return;
    const std::string key = heartbeat_key(host);
    const auto text = link_->store()->multi_get({key});
    if (!text || text->front() == kGone) return losses_.no_host(Clock::now());
    const Heartbeat last = Heartbeat::decode({text->front(), whose_text(key)}, link_->size());
    const auto silence =
        losses_.check_host(text->front(), last.next, Clock::now(), slept_at_most, host_timeout_);
    if (!silence) return;
    std::string why = link_->record(host).str() + " sent no heartbeat for " + text_of(*silence) + " s";
    if (!last.activities.empty()) {
      const auto& [rank, activity] = *last.activities.begin();
      why += "; rank " + std::to_string(rank) + " " + activity;
    }
    link_->report_lost(last.scopes, why);
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
               watched.news.left->step, " steps. Rank ", link_->rank(),
               " has not asked for a step since; if it waits in a collective for rank ",
               watched.news.left->rank, ", that rank will not join it.");
  }

  /// Fails an iterator, unless it has failed, here and on the other ranks.
  void fail(Watched& watched, const std::string& text) {
    {
      const std::lock_guard lock((*list_)->mutex);
      if (!watched.news.failure.empty()) return;
      watched.news.failure = text;
      watched.has_news.store(true, std::memory_order_release);
    }
    link_->post(failed_key(watched.key), text);
  }

  GroupLinkPtr link_;
  Seconds longest_;
  Seconds interval_ = longest_;  // of this rank's beats
  Seconds timeout_ = Seconds::max();
  Seconds host_timeout_ = Seconds::max();
  LossWatch losses_;
  std::int64_t stood_in_ = 0;
  std::shared_ptr<ProcessOwned<MonitoredIterators>> list_;
  WorkerThread thread_;  // last, because it uses the others
};

}  // namespace

std::shared_ptr<HeartbeatMonitor> start_heartbeat_monitor(GroupLinkPtr link,
                                                          std::chrono::milliseconds interval) {
  return std::make_shared<ThreadedHeartbeatMonitor>(std::move(link), interval);
}

}  // namespace torch_distinput
