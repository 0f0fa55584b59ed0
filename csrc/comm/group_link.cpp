// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/group_link.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "comm/host_roles.h"
#include "comm/local_socket.h"
#include "comm/peer_text.h"
#include "comm/with_prefix.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;
using Job = std::function<void(LinkRole&)>;

/// How long one wait of the store lasts. Long, because c10d prints a warning when it ends without a text. The
/// thread need not be told when it is not needed any more: others end what it waits for.
constexpr std::chrono::hours kWait{1};
/// Between two looks for the other hosts, until all have come: from the first to the last, which grows with
/// the group, so that the store has 4,000 looks a second at most.
constexpr std::chrono::microseconds kFirstLook{500};
constexpr std::chrono::microseconds kLastLook{20'000};
constexpr std::chrono::microseconds kLastLookPerRank{250};
/// For what a process says when it leaves.
constexpr std::chrono::seconds kLeaveWithin{1};
/// For what a process says when it ends a scope.
constexpr std::chrono::milliseconds kEndWithin{100};
/// For the names of ranks in a message.
constexpr std::chrono::seconds kMissingWithin{5};
/// Between two checks of a consumer that waits.
constexpr std::chrono::milliseconds kCheck{50};

/// Ends a call of the store that would delay the end of the link.
struct Stopped {};

}  // namespace

/// What the threads share. `mutex` guards all of it.
struct GroupLink::Shared {
  Shared(KeyValueStorePtr group_store, HostIdentity identity)
      : store(std::move(group_store)),
        host(std::move(identity)),
        wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  KeyValueStorePtr store;
  HostIdentity host;
  Descriptor wake;  // wakes the thread that runs the role
  mutable std::mutex mutex;
  std::condition_variable awaited;  // for the thread that waits
  std::condition_variable changed;  // for consumers
  std::deque<Job> jobs;
  std::optional<std::pair<std::string, std::chrono::milliseconds>> beat;  // to be told
  std::optional<std::string> awaits;                                      // the key to wait for
  std::optional<GroupMachine::Seat> seat;                                 // once all have met
  bool speaks = false;
  std::string lost;  // why nothing can be said any more; empty: it can
  std::optional<Clock::time_point> stopped_at;
  ScopeSet scopes;
  std::map<std::string, GroupMachine::Entry> entries;
  std::set<std::string> contributed;  // keys of open scopes
  std::vector<LinkRole::Heard> heard;
  std::atomic<std::int64_t> come{0};
  // Shares the ownership of this, so that its owner need not join it. Started where this process speaks.
  std::optional<WorkerThread> waiting_thread;

  void wake_up() const {
    constexpr std::uint64_t kOne = 1;
    // A counter that is full wakes as well.
    [[maybe_unused]] const auto written = ::write(wake.number(), &kOne, sizeof kOne);
  }

  void submit(Job job) {
    {
      const std::lock_guard lock(mutex);
      jobs.push_back(std::move(job));
    }
    wake_up();
  }

  /// Whether an entry is of an open scope or of one that this process has still to open.
  bool keeps(const std::string& key) const { return !scopes.has_ended(scope_of(key)); }

  /// Makes what the role has to say known.
  void publish(LinkRole& role) {
    auto came = role.take_entries();
    const auto now = role.seat();
    {
      const std::lock_guard lock(mutex);
      speaks = role.speaks();
      if (auto key = role.awaits(); key != awaits) {
        awaits = std::move(key);
        awaited.notify_one();
      }
      const bool is_news = !came.empty() || (now && !seat);
      seat = now;
      for (auto& entry : came)
        if (keeps(entry.key)) entries.try_emplace(entry.key, std::move(entry));
      come += std::ssize(came);
      if (is_news) changed.notify_all();
    }
  }

  void lose(const std::string& why) {
    {
      const std::lock_guard lock(mutex);
      if (lost.empty()) lost = why;
      ++come;
    }
    changed.notify_all();
    awaited.notify_one();
  }

  void throw_if_stopped() const {
    const std::lock_guard lock(mutex);
    if (stopped_at && Clock::now() - *stopped_at > kLeaveWithin) throw Stopped();
  }

  /// Waits for something to do; returns false after `limit`.
  bool wait_for_work(const LinkRole& role, std::optional<std::chrono::microseconds> limit) const {
    auto descriptors = role.waits_for();
    descriptors.push_back({wake.number(), POLLIN, 0});
    timespec time{};
    if (limit) {
      time.tv_sec = limit->count() / 1'000'000;
      time.tv_nsec = limit->count() % 1'000'000 * 1'000;
    }
    if (::ppoll(descriptors.data(), descriptors.size(), limit ? &time : nullptr, nullptr) == 0) return false;
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(wake.number(), &count, sizeof count);
    return true;
  }

  /// The jobs that have come up, the last one empty if none follows.
  std::deque<Job> take_jobs() {
    const std::lock_guard lock(mutex);
    auto taken = std::exchange(jobs, {});
    if (auto told = std::exchange(beat, std::nullopt))
      taken.push_back([this, told = *told](LinkRole& role) {
        role.beat(told.first, told.second);
        auto all = role.heard();
        const std::lock_guard hold(mutex);
        heard = std::move(all);
      });
    if (stopped_at) taken.emplace_back();
    return taken;
  }

  /// The thread that runs the role.
  void run(const std::function<void()>& start_waiting) noexcept {
    const InterruptScope unless_stopped([this] { throw_if_stopped(); });
    std::unique_ptr<LinkRole> role;
    const auto progress = [&] {
      role->progress([&] { publish(*role); });
      publish(*role);
      while (auto next = role->successor()) {
        role = std::move(next);
        role->progress([&] { publish(*role); });
        publish(*role);
      }
      if (role->awaits()) start_waiting();
    };
    auto look = kFirstLook;
    try {
      role = role_on_host(store, host);
      while (true) {
        progress();
        const bool meets = role->speaks() && !role->seat();
        if (!wait_for_work(*role, meets ? std::optional(look) : std::nullopt)) {
          look = std::min(2 * look, std::max(kLastLook, store->size() * kLastLookPerRank));
          role->look();
        }
        for (const Job& job : take_jobs()) {
          if (!job) {
            role->leave();
            return progress();
          }
          job(*role);
          progress();
        }
      }
    } catch (const Stopped&) {
      return;
    } catch (const DistributedDatasetError& error) {
      lose(error.what_without_backtrace());
    } catch (const std::exception& error) {
      lose(error.what());
    }
  }

  /// The thread that waits. The store may block it beyond the end of the link.
  void wait() noexcept {
    while (true) {
      std::string key;
      {
        std::unique_lock lock(mutex);
        awaited.wait(lock, [this] { return stopped_at || !lost.empty() || awaits; });
        if (stopped_at || !lost.empty()) return;
        key = *awaits;
      }
      try {
        const auto text = store->await(key, kWait);
        if (!text) continue;
        submit([key, text = *text](LinkRole& role) { role.found(key, text); });
        std::unique_lock lock(mutex);
        awaited.wait(lock, [&] { return stopped_at || !lost.empty() || awaits != key; });
      } catch (const DistributedDatasetError& error) {
        return lose(error.what_without_backtrace());
      } catch (const std::exception& error) {
        return lose(error.what());
      }
    }
  }
};

GroupLink::GroupLink(KeyValueStorePtr kv_store, HostIdentity host)
    : kv_store_(std::move(kv_store)), shared_(std::make_shared<Shared>(kv_store_, std::move(host))) {
  thread_ = std::make_unique<WorkerThread>("tdi-link", [shared = shared_.share()] {
    shared->run([&shared] {
      if (shared->waiting_thread) return;
      shared->waiting_thread.emplace("tdi-wait", [shared] { shared->wait(); });
    });
  });
}

GroupLink::~GroupLink() {
  if (shared_.inherited()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopped_at = Clock::now();
  }
  shared_->wake_up();
  shared_->awaited.notify_one();
}

void GroupLink::wait_for(const std::function<bool(const Shared&)>& ready, const std::string& key,
                         WaitOptions wait_options) {
  const auto done = [&] { return ready(*shared_) || !shared_->lost.empty(); };
  const auto sleep = [&] {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, kCheck, done);
  };
  const auto poll = [&] {
    const std::lock_guard lock(shared_->mutex);
    return done();
  };
  wait_until(rank(), poll, [&] { return missing(key); }, wait_options, sleep);
  const std::lock_guard lock(shared_->mutex);
  if (!ready(*shared_)) throw DistributedDatasetError(shared_->lost);
}

std::vector<LateRank> GroupLink::missing(const std::string& key) const {
  auto answer = std::make_shared<std::promise<std::vector<LateRank>>>();
  auto ranks = answer->get_future();
  shared_->submit([key, answer](LinkRole& role) {
    role.ask(key, [answer](std::vector<LateRank> late) { answer->set_value(std::move(late)); });
  });
  // The store may be lost, or not answer.
  if (ranks.wait_for(kMissingWithin) != std::future_status::ready) return {};
  try {
    return ranks.get();
  } catch (const std::future_error&) {
    return {};
  }
}

void GroupLink::meet(const WaitOptions& wait_options) {
  wait_for([](const Shared& shared) { return shared.seat.has_value(); }, "", wait_options);
}

KeyValueStorePtr GroupLink::store() const {
  const std::lock_guard lock(shared_->mutex);
  return with_prefix(kv_store_, "life/" + shared_->seat->life + "/");
}

bool GroupLink::speaks() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->speaks;
}

std::int64_t GroupLink::hosts() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->seat->hosts;
}

std::int64_t GroupLink::host() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->seat->host;
}

void GroupLink::open(const std::string& scope) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->scopes.open(scope);
  }
  shared_->submit([scope](LinkRole& role) { role.open(scope); });
}

void GroupLink::end(const std::string& scope) noexcept {
  const auto within = [&](const std::string& key) { return scope_of(key) == scope; };
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->scopes.end(scope)) return;
    std::erase_if(shared_->entries, [&](const auto& entry) { return within(entry.first); });
    std::erase_if(shared_->contributed, within);
    if (!shared_->lost.empty()) return;
  }
  // Shared with the job, which may be dropped.
  auto told = std::make_shared<std::promise<void>>();
  auto done = told->get_future();
  shared_->submit([scope](LinkRole& role) { role.end(scope); });
  shared_->submit([told](LinkRole&) { told->set_value(); });
  done.wait_for(kEndWithin);
}

void GroupLink::contribute(const std::string& key, const std::string& text, GroupMachine::Join join) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->contributed.insert(key).second) return;
  }
  shared_->submit([=, join = std::move(join)](LinkRole& role) { role.contribute(key, text, join); });
}

std::string GroupLink::reduce(const std::string& key, const std::string& text, GroupMachine::Join join,
                              WaitOptions wait_options) {
  contribute(key, text, std::move(join));
  return result(key, std::move(wait_options));
}

std::string GroupLink::result(const std::string& key, WaitOptions wait_options) {
  wait_for([&](const Shared& shared) { return shared.entries.contains(key); }, key, std::move(wait_options));
  const std::lock_guard lock(shared_->mutex);
  auto entry = shared_->entries.extract(key);
  // Another thread may have ended the scope meanwhile.
  if (entry.empty()) throw DistributedDatasetError("the scope of `" + key + "` has ended.");
  if (entry.mapped().failed) throw DistributedDatasetError(entry.mapped().text);
  return std::move(entry.mapped().text);
}

void GroupLink::post(const std::string& key, const std::string& text) {
  shared_->submit([=](LinkRole& role) { role.post(key, text); });
}

std::optional<std::string> GroupLink::find(const std::string& key) const {
  const std::lock_guard lock(shared_->mutex);
  const auto entry = shared_->entries.find(key);
  if (entry == shared_->entries.end()) return std::nullopt;
  return entry->second.text;
}

std::int64_t GroupLink::entries() const noexcept { return shared_->come.load(std::memory_order_acquire); }

std::string GroupLink::lost() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->lost;
}

void GroupLink::beat(const std::string& activity, std::chrono::milliseconds next) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->beat = {activity, next};
  }
  shared_->wake_up();
}

std::vector<LinkRole::Heard> GroupLink::heard() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->heard;
}

ScopeSet GroupLink::scopes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->scopes;
}

HostRecord GroupLink::record(std::int64_t host) const {
  const std::string key = "host/" + std::to_string(host);
  const auto text = store()->multi_get({key});
  return text ? HostRecord::decode(text->front(), "the text under `" + key + "`", size()) : HostRecord{};
}

void GroupLink::report_lost(const ScopeSet& scopes, const std::string& why) {
  shared_->submit([=](LinkRole& role) { role.report_lost(scopes, why); });
}

std::string text_of_one(int rank, const std::string& text) {
  PeerTextWriter writer;
  writer.integer(rank);
  writer.string(text);
  return writer.take();
}

std::string join_texts(const std::vector<std::string>& texts) {
  std::string joined;
  for (const auto& text : texts) joined += text;
  return joined;
}

std::vector<std::string> texts_of_all(const std::string& joined, int size, const std::string& whose) {
  std::vector<std::optional<std::string>> texts(static_cast<std::size_t>(size));
  PeerTextReader reader(joined, whose);
  while (!reader.ended()) {
    auto& text = texts[static_cast<std::size_t>(reader.integer("a rank", 0, size - 1))];
    const std::string_view read = reader.string("the text of a rank");
    if (text) reader.fail("the text of a rank", "there once", "there twice");
    text = read;
  }
  std::vector<std::string> all;
  for (auto& text : texts) {
    if (!text) reader.fail("the texts", "those of all ranks", "less");
    all.push_back(std::move(*text));
  }
  return all;
}

}  // namespace torch_distinput
