// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/group_link.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "comm/peer_text.h"
#include "comm/restarts.h"
#include "comm/with_prefix.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = StoreRequest::Kind;

/// How long one wait of the store lasts. Long, because c10d prints a warning when it ends without a text. The
/// thread need not be told when it is not needed any more: others end what it waits for.
constexpr std::chrono::hours kWait{1};
/// Between two looks for the others, until all have come: from the first to the last, which grows with the
/// group, so that the store has 4,000 looks a second at most.
constexpr std::chrono::microseconds kFirstLook{500};
constexpr std::chrono::microseconds kLastLook{20'000};
constexpr std::chrono::microseconds kLastLookPerRank{250};
/// For what a process says when it leaves.
constexpr std::chrono::seconds kLeaveWithin{1};
/// For the names of ranks in a message.
constexpr std::chrono::seconds kMissingWithin{5};
/// Between two checks of a consumer that waits.
constexpr std::chrono::milliseconds kCheck{50};

std::uint64_t draw() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

/// `text` up to its last slash.
std::string parent_of(const std::string& text) {
  return text.substr(0, std::min(text.rfind('/'), text.size()));
}

/// The number of a scope.
std::int64_t number_of(const std::string& scope) {
  const std::string digits = scope.substr(scope.rfind('/') + 1) + " ";
  return PeerTextReader(digits, "the key of an entry")
      .integer("the number of a scope", 0, std::numeric_limits<std::int64_t>::max());
}

StoreAnswer make(KeyValueStore& store, const StoreRequest& request) {
  switch (request.kind) {
    case Kind::kSet:
      store.set(request.key, request.text);
      return {};
    case Kind::kCompareSet:
      return {store.compare_set(request.key, request.text)};
    case Kind::kAppend:
      store.append(request.key, request.text);
      return {};
    case Kind::kAdd:
      return {{}, store.add(request.key, request.number)};
    case Kind::kGet:
      if (auto texts = store.multi_get({request.key})) return {std::move(texts->front())};
      return {};
    case Kind::kRemove:
      store.remove(request.key);
      return {};
  }
  return {};
}

/// Ends a call of the store that would delay the end of the link.
struct Stopped {};

}  // namespace

/// What the threads share. `mutex` guards all but the machine, which belongs to the thread that makes
/// requests.
struct GroupLink::Shared {
  Shared(KeyValueStorePtr group_store, std::uint64_t nonce)
      : store(std::move(group_store)), machine(store->rank(), store->size(), nonce) {}

  KeyValueStorePtr store;
  GroupMachine machine;
  mutable std::mutex mutex;
  std::condition_variable work;     // for the thread that makes requests
  std::condition_variable awaited;  // for the thread that waits
  std::condition_variable changed;  // for consumers
  std::deque<std::function<void(GroupMachine&)>> jobs;
  std::string awaits;  // the key of the next entry; from `met` on
  bool started = false;
  bool met = false;
  std::string prefix;
  std::string lost;  // why nothing can be said any more; empty: it can
  std::optional<Clock::time_point> stopped_at;
  std::set<std::string> open;                // scopes
  std::map<std::string, std::int64_t> last;  // number of the last opened scope of a name
  std::map<std::string, GroupMachine::Entry> entries;
  std::set<std::string> contributed;  // keys of open scopes
  std::atomic<std::int64_t> come{0};
  std::optional<WorkerThread>
      waiting_thread;  // shares the ownership of this, so that its owner need not join it

  void submit(std::function<void(GroupMachine&)> job) {
    {
      const std::lock_guard lock(mutex);
      jobs.push_back(std::move(job));
    }
    work.notify_one();
  }

  bool listens() const { return met && !open.empty(); }

  /// Whether an entry is of an open scope or of one that this process has still to open.
  bool keeps(const std::string& key) const {
    const std::string scope = parent_of(key);
    if (open.contains(scope)) return true;
    const auto opened = last.find(parent_of(scope));
    return opened == last.end() || number_of(scope) > opened->second;
  }

  /// Makes what the machine has to say known.
  void publish() {
    auto came = machine.take_entries();
    if (!machine.met()) return;
    {
      const std::lock_guard lock(mutex);
      if (came.empty() && met) return;
      awaits = machine.awaits().value();
      met = true;
      prefix = machine.prefix();
      for (auto& entry : came)
        if (keeps(entry.key)) entries.try_emplace(entry.key, std::move(entry));
      come += std::ssize(came);
    }
    awaited.notify_one();
    changed.notify_all();
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

  /// Makes the requests that have come up, and those that their answers bring up.
  void make_requests() {
    std::deque<StoreRequest> left;
    const auto take = [&] {
      for (auto& request : machine.take_requests()) left.push_back(std::move(request));
    };
    for (take(); !left.empty(); take()) {
      const StoreRequest request = std::move(left.front());
      left.pop_front();
      const StoreAnswer answer = make(*store, request);
      if (!request.then) continue;
      request.then(answer);
      publish();
    }
    publish();
  }

  void throw_if_stopped() const {
    const std::lock_guard lock(mutex);
    if (stopped_at && Clock::now() - *stopped_at > kLeaveWithin) throw Stopped();
  }

  /// The next job; after the last one, an empty one.
  std::function<void(GroupMachine&)> next_job(std::chrono::microseconds& look) {
    std::unique_lock lock(mutex);
    const auto due = [this] { return stopped_at || !jobs.empty(); };
    if (met) {
      work.wait(lock, due);
    } else if (!work.wait_for(lock, look, due)) {
      look = std::min(2 * look, std::max(kLastLook, store->size() * kLastLookPerRank));
      return &GroupMachine::look;
    }
    if (jobs.empty()) return {};
    auto job = std::move(jobs.front());
    jobs.pop_front();
    return job;
  }

  /// The thread that makes requests.
  void run() noexcept {
    const InterruptScope unless_stopped([this] { throw_if_stopped(); });
    auto look = kFirstLook;
    try {
      machine.start();
      make_requests();
      while (auto job = next_job(look)) {
        job(machine);
        make_requests();
      }
      machine.leave();
      make_requests();
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
        awaited.wait(lock, [this] { return stopped_at || !lost.empty() || listens(); });
        if (stopped_at || !lost.empty()) return;
        key = awaits;
      }
      try {
        const auto text = store->await(key, kWait);
        if (!text) continue;
        submit([key, text = *text](GroupMachine& group) { group.found(key, text); });
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

GroupLink::GroupLink(KeyValueStorePtr kv_store)
    : kv_store_(std::move(kv_store)), shared_(std::make_shared<Shared>(kv_store_, draw())) {
  shared_->waiting_thread.emplace("tdi-wait", [shared = shared_.share()] { shared->wait(); });
  thread_ = std::make_unique<WorkerThread>("tdi-link", [shared = shared_.share()] { shared->run(); });
}

GroupLink::~GroupLink() {
  if (shared_.inherited()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopped_at = Clock::now();
  }
  shared_->work.notify_one();
  shared_->awaited.notify_one();
}

void GroupLink::wait_for(const std::function<bool(const Shared&)>& ready, const std::string& key,
                         const WaitOptions& wait_options) {
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

std::vector<int> GroupLink::missing(const std::string& key) const {
  auto answer = std::make_shared<std::promise<std::vector<int>>>();
  auto ranks = answer->get_future();
  shared_->submit([key, answer, store = kv_store_](GroupMachine& group) {
    answer->set_value(group.missing(*store, key));
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
  wait_for([](const Shared& shared) { return shared.met; }, "", wait_options);
}

KeyValueStorePtr GroupLink::store() const {
  const std::lock_guard lock(shared_->mutex);
  return with_prefix(kv_store_, shared_->prefix);
}

void GroupLink::open(const std::string& scope) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->open.insert(scope);
    auto& last = shared_->last.try_emplace(parent_of(scope), -1).first->second;
    last = std::max(last, number_of(scope));
  }
  shared_->awaited.notify_one();
}

void GroupLink::end(const std::string& scope) {
  const auto within = [&](const std::string& key) { return parent_of(key) == scope; };
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->open.erase(scope) == 0) return;
    std::erase_if(shared_->entries, [&](const auto& entry) { return within(entry.first); });
    std::erase_if(shared_->contributed, within);
  }
  shared_->submit([scope](GroupMachine& group) { group.end(scope + "/"); });
}

std::string GroupLink::reduce(const std::string& key, const std::string& text, GroupMachine::Join join,
                              const WaitOptions& wait_options) {
  bool first = false;
  {
    const std::lock_guard lock(shared_->mutex);
    first = shared_->contributed.insert(key).second;
  }
  if (first) {
    shared_->submit([=, join = std::move(join)](GroupMachine& group) { group.contribute(key, text, join); });
  }
  wait_for([&](const Shared& shared) { return shared.entries.contains(key); }, key, wait_options);
  const std::lock_guard lock(shared_->mutex);
  auto entry = shared_->entries.extract(key);
  if (entry.mapped().failed) throw DistributedDatasetError(entry.mapped().text);
  return std::move(entry.mapped().text);
}

void GroupLink::post(const std::string& key, const std::string& text) {
  shared_->submit([=](GroupMachine& group) { group.post(key, text); });
}

std::optional<std::string> GroupLink::find(const std::string& key) const {
  const std::lock_guard lock(shared_->mutex);
  const auto entry = shared_->entries.find(key);
  if (entry == shared_->entries.end()) return std::nullopt;
  return entry->second.text;
}

std::int64_t GroupLink::entries() const noexcept { return shared_->come.load(std::memory_order_acquire); }

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
