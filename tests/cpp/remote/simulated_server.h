// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "remote/fetch_schedule.h"

namespace torch_distinput {

/// What a server does with one request.
struct SimulatedAnswer {
  Nanos first_byte = 10 * kMillisecond;  ///< after its start
  Nanos body = 5 * kMillisecond;         ///< after the first byte; not where there is a link
  Ending ending = Ending::kDone;
  bool is_silent = false;  ///< it never answers
  double rate = 0;  ///< bytes a second of its body, a tenth of a second's at a time; 0: it comes in `body`
  double cut = 0;   ///< of an answer that fails: so much of what was to come of its body does
  Nanos retry_after = -1;
};

/// What bodies share.
struct SimulatedLink {
  double bytes_per_second;  ///< in all
  double of_connection;     ///< the most that one gets
};

/// Runs a FetchSchedule against a server in virtual time.
class SimulatedFetches {
 public:
  using Server = std::function<SimulatedAnswer(Nanos now, int running)>;

  SimulatedFetches(FetchRules rules, std::uint64_t seed, Server server)
      : schedule(rules, seed), server_(std::move(server)) {}

  void add(FetchId fetch, Nanos patience = 120 * kSecond, bool goes_on = true) {
    schedule.add(fetch, "server", patience, goes_on, now);
    began[fetch] = now;
    if (goes_on) left_[fetch] = bytes_of_body;
  }

  /// Runs until nothing is under way, or for `most`.
  void run(Nanos most = 3600 * kSecond) {
    const Nanos end = now + most;
    while (now < end && step()) {
    }
  }

  FetchSchedule schedule;
  Nanos now = 0;
  std::map<FetchId, Nanos> began;
  std::map<FetchId, Nanos> done;
  std::set<FetchId> given_up;
  std::set<FetchId> refused;
  int most_running = 0;
  std::uint64_t bytes_of_body = 1 << 20;
  std::optional<SimulatedLink> link;

 private:
  enum class Kind { kFirstByte, kSome, kEnd };
  struct Event {
    AttemptId attempt;
    FetchId fetch;
    Kind kind;
    SimulatedAnswer answer;
    std::uint64_t left = 0;  ///< bytes of its body
  };

  bool step() {
    const FetchSchedule::Step next = schedule.step(now);
    for (const AttemptId id : next.cancels) stop(id);
    given_up.insert(next.given_up.begin(), next.given_up.end());
    for (const auto& start : next.starts) {
      running_.insert(start.attempt);
      const SimulatedAnswer answer = server_(now, static_cast<int>(running_.size()));
      if (!answer.is_silent)
        events_.emplace(now + answer.first_byte, Event{start.attempt, start.fetch, Kind::kFirstByte, answer});
    }
    most_running = std::max(most_running, static_cast<int>(running_.size()));
    if (done.size() + given_up.size() + refused.size() == began.size()) return false;
    const Nanos event = events_.empty() ? next.wake : events_.begin()->first;
    const Nanos before = now;
    now = std::max(now, std::min(event, std::max(next.wake, now + 1)));
    if (!bodies_.empty()) now = std::min(now, before + kMillisecond);
    carry(now - before);
    while (!events_.empty() && events_.begin()->first <= now) {
      const Event happened = events_.begin()->second;
      events_.erase(events_.begin());
      tell(happened);
    }
    return true;
  }

  void tell(const Event& event) {
    if (!running_.contains(event.attempt)) return;
    if (event.kind == Kind::kFirstByte) {
      if (!schedule.first_byte(event.attempt, now)) {
        running_.erase(event.attempt);
        return;
      }
      Event end = event;
      end.kind = Kind::kEnd;
      const auto left = left_.find(event.fetch);
      end.left = left == left_.end() ? bytes_of_body : left->second;
      if (event.answer.rate > 0) return trickle(end);
      if (link && event.answer.ending == Ending::kDone) {
        bodies_.emplace(event.attempt, std::pair(end, static_cast<double>(bytes_of_body)));
        return;
      }
      events_.emplace(now + event.answer.body, end);
      return;
    }
    if (event.kind == Kind::kSome) {
      const auto some = std::min(event.left, static_cast<std::uint64_t>(event.answer.rate / 10));
      bring(event, some);
      Event next = event;
      next.left -= some;
      return trickle(next);
    }
    running_.erase(event.attempt);
    if (event.answer.cut > 0)
      bring(event, static_cast<std::uint64_t>(event.answer.cut * static_cast<double>(event.left)));
    if (event.answer.ending == Ending::kDone) {
      if (!link) schedule.progress(event.attempt, event.left, now);
      done[event.fetch] = now;
    }
    if (event.answer.ending == Ending::kRefused) refused.insert(event.fetch);
    schedule.end(event.attempt, event.answer.ending, event.answer.retry_after, now);
  }

  void bring(const Event& event, std::uint64_t bytes) {
    schedule.progress(event.attempt, bytes, now);
    if (const auto left = left_.find(event.fetch); left != left_.end()) left->second -= bytes;
  }

  /// The next bytes of a body that comes slowly, or its end.
  void trickle(Event event) {
    event.kind = event.left > 0 ? Kind::kSome : Kind::kEnd;
    events_.emplace(now + (event.left > 0 ? kSecond / 10 : 0), event);
  }

  void stop(AttemptId id) {
    running_.erase(id);
    bodies_.erase(id);
  }

  /// Moves bodies over the link for `time`.
  void carry(Nanos time) {
    if (bodies_.empty()) return;
    const double rate =
        std::min(link->of_connection, link->bytes_per_second / static_cast<double>(bodies_.size()));
    const double bytes = rate * static_cast<double>(time) / kSecond;
    std::vector<Event> ended;
    for (auto& [id, body] : bodies_) {
      const double part = std::min(bytes, body.second);
      body.second -= part;
      if (part > 0) schedule.progress(id, static_cast<std::uint64_t>(part), now);
      if (body.second < 1) ended.push_back(body.first);
    }
    for (const Event& event : ended) {
      bodies_.erase(event.attempt);
      tell(event);
    }
  }

  Server server_;
  std::map<AttemptId, std::pair<Event, double>>
      bodies_;                             ///< on the link, and the bytes that are left of them
  std::map<FetchId, std::uint64_t> left_;  ///< of fetches that go on, the bytes that have not come
  std::multimap<Nanos, Event> events_;
  std::set<AttemptId> running_;
};

}  // namespace torch_distinput
