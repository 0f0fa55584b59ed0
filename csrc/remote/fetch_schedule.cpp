// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/fetch_schedule.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace torch_distinput {
namespace {

/// How often the clocks of attempts are looked at.
constexpr Nanos kLook = 5 * kMillisecond;
/// Responses that must have come before one is called late.
constexpr std::size_t kTelling = 20;
constexpr double kLate = 0.95;
constexpr double kMostRetryTokens = 10;
constexpr double kMostHedgeTokens = 4;
/// Repetitions a second that a server gets whatever else is asked of it: one of them finds out that it works.
constexpr double kProbes = 2;
/// Those that wait to be repeated are spread over this time once the server works again.
constexpr Nanos kRecall = kSecond;

/// `since`, later by the time for which `bytes` suffice at `rate`: a body that is faster reaches `now`, and
/// one that is slower stays behind more and more.
Nanos paid_until(Nanos since, std::uint64_t bytes, double rate, Nanos now) {
  const double most = static_cast<double>(now - since);
  return since + static_cast<Nanos>(std::min(most, static_cast<double>(bytes) * kSecond / rate));
}

}  // namespace

FetchSchedule::FetchSchedule(FetchRules rules, std::uint64_t seed) : rules_(rules), random_(seed) {}

FetchSchedule::~FetchSchedule() = default;

void FetchSchedule::add(FetchId id, const std::string& key, Nanos patience, bool goes_on, Nanos now) {
  auto& origin = origins_[key];
  if (origin == nullptr) {
    origin = std::make_unique<Origin>();
    origin->refilled = now;
    set_limits(*origin);
  }
  origin->retry_tokens = std::min(kMostRetryTokens, origin->retry_tokens + rules_.retry_share);
  origin->hedge_tokens = std::min(kMostHedgeTokens, origin->hedge_tokens + rules_.hedge_share);
  fetches_.emplace(
      id, Fetch{.id = id, .origin = origin.get(), .patience = patience, .goes_on = goes_on, .queued = true});
  origin->queue.push_back(id);
}

void FetchSchedule::urge(FetchId id) {
  Fetch* const fetch = find(id);
  if (fetch == nullptr) return;
  fetch->urged = true;
  if (!fetch->queued || fetch->origin->queue.front() == id) return;
  // Its place further back is passed over later, because then it is not queued any more.
  fetch->origin->queue.push_front(id);
}

void FetchSchedule::drop(FetchId id) {
  Fetch* const fetch = find(id);
  if (fetch == nullptr) return;
  if (fetch->due >= 0) --fetch->origin->delayed;
  cancel_attempts(*fetch, 0);
  fetches_.erase(id);
}

bool FetchSchedule::first_byte(AttemptId id, Nanos now) {
  pass(now);
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return false;
  Attempt& attempt = found->second;
  Fetch& fetch = fetches_.at(attempt.fetch);
  if (fetch.speaker != 0) return fetch.speaker == id;
  fetch.speaker = id;
  attempt.answered = attempt.heard = attempt.on_pace = fetch.origin->heard = now;
  --unanswered_;
  counts_.answers.add(now - attempt.began);
  fetch.origin->latencies.add(now - attempt.began);
  if (attempt.is_hedge) ++counts_.hedges_won;
  cancel_attempts(fetch, id);
  return true;
}

void FetchSchedule::progress(AttemptId id, std::uint64_t bytes, Nanos now) {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  Attempt& attempt = found->second;
  Fetch& fetch = fetches_.at(attempt.fetch);
  attempt.heard = fetch.origin->heard = now;
  if (bytes == 0) return;
  attempt.bytes += bytes;
  // What an attempt before had brought as well is no progress.
  const std::uint64_t fresh =
      fetch.goes_on ? bytes : std::min(bytes, attempt.bytes - std::min(attempt.bytes, fetch.most));
  fetch.progressed = paid_until(fetch.progressed, fresh, rules_.least_rate, now);
  attempt.on_pace = paid_until(attempt.on_pace, bytes, fetch.origin->slow, now);
  fetch.origin->limit.received(bytes, now);
}

void FetchSchedule::end(AttemptId id, Ending ending, Nanos retry_after, Nanos now) {
  pass(now);
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  const Attempt attempt = found->second;
  Fetch& fetch = fetches_.at(attempt.fetch);
  Origin& origin = *fetch.origin;
  end_attempt(id);
  switch (ending) {
    case Ending::kDone:
      origin.limit.finished(now - attempt.began);
      if (attempt.answered >= 0) origin.latencies.add_body(attempt.bytes, now - attempt.answered);
      if (origin.delayed > 0) recall(origin, now);
      if (fetch.tries > 1) origin.retry_tokens = std::min(kMostRetryTokens, origin.retry_tokens + 1);
      drop(attempt.fetch);
      return;
    case Ending::kRefused:
      drop(attempt.fetch);
      return;
    case Ending::kAgain:
      fetch.queued = true;
      --fetch.tries;
      origin.queue.push_front(fetch.id);
      return;
    case Ending::kThrottled:
      ++counts_.throttled;
      origin.limit.throttled(now);
      break;
    case Ending::kFailed:
      break;
  }
  if (fetch.first == 0 && fetch.second == 0) wait_to_retry(fetch, retry_after, now);
}

FetchSchedule::Step FetchSchedule::step(Nanos now) {
  pass(now);
  if (now >= next_look_) look_at_clocks(now);
  is_full_ = false;
  for (auto& [key, origin] : origins_) {
    start_waiting(*origin, now);
    is_full_ = is_full_ || !origin->queue.empty();
    origin->limit.note_demand(origin->running, !origin->queue.empty());
  }
  step_.wake = attempts_.empty() && fetches_.empty() ? std::numeric_limits<Nanos>::max() : next_look_;
  return std::exchange(step_, Step{});
}

const Latencies* FetchSchedule::latencies(const std::string& key) const noexcept {
  const auto found = origins_.find(key);
  return found == origins_.end() ? nullptr : &found->second->latencies;
}

int FetchSchedule::limit(const std::string& key) const noexcept {
  const auto found = origins_.find(key);
  return found == origins_.end() ? 0 : found->second->limit.limit();
}

int FetchSchedule::running(const std::string& key) const noexcept {
  const auto found = origins_.find(key);
  return found == origins_.end() ? 0 : found->second->running;
}

int FetchSchedule::limit_of_busiest() const noexcept {
  const auto busiest = std::max_element(origins_.begin(), origins_.end(), [](const auto& a, const auto& b) {
    return a.second->requests < b.second->requests;
  });
  return busiest == origins_.end() ? 0 : busiest->second->limit.limit();
}

/// Counts the time since the last call, in which what is under way did not change.
void FetchSchedule::pass(Nanos now) noexcept {
  const Nanos time = now - std::exchange(counted_, now);
  if (attempts_.empty()) return;
  counts_.busy += time;
  if (is_full_) counts_.full += time;
  counts_.running += time * static_cast<Nanos>(attempts_.size());
  counts_.unanswered += time * unanswered_;
}

FetchSchedule::Fetch* FetchSchedule::find(FetchId id) noexcept {
  const auto found = fetches_.find(id);
  return found == fetches_.end() ? nullptr : &found->second;
}

void FetchSchedule::start(Fetch& fetch, bool is_hedge, Nanos now) {
  const AttemptId id = next_attempt_++;
  attempts_.emplace(id, Attempt{.fetch = fetch.id, .began = now, .heard = now, .is_hedge = is_hedge});
  (is_hedge ? fetch.second : fetch.first) = id;
  ++fetch.tries;
  ++fetch.origin->running;
  ++fetch.origin->requests;
  ++unanswered_;
  ++counts_.requests;
  if (is_hedge) ++counts_.hedges;
  if (fetch.progressed < 0) fetch.progressed = now;
  step_.starts.push_back({id, fetch.id, is_hedge});
}

void FetchSchedule::cancel_attempts(Fetch& fetch, AttemptId but) {
  for (const AttemptId id : {fetch.first, fetch.second}) {
    if (id == 0 || id == but) continue;
    step_.cancels.push_back(id);
    end_attempt(id);
  }
}

void FetchSchedule::end_attempt(AttemptId id) {
  const auto found = attempts_.find(id);
  Fetch& fetch = fetches_.at(found->second.fetch);
  (fetch.first == id ? fetch.first : fetch.second) = 0;
  if (fetch.speaker == id) fetch.speaker = 0;
  --fetch.origin->running;
  if (found->second.answered < 0) --unanswered_;
  fetch.most = std::max(fetch.most, found->second.bytes);
  attempts_.erase(found);
}

void FetchSchedule::wait_to_retry(Fetch& fetch, Nanos retry_after, Nanos now) {
  // Decorrelated jitter: delays grow, and those of fetches that failed together come apart.
  const auto low = static_cast<double>(rules_.first_delay);
  const double high = std::max(3.0 * static_cast<double>(fetch.delay), low);
  fetch.delay = std::min(rules_.most_delay, static_cast<Nanos>(jitter(low, high)));
  fetch.is_recallable = retry_after < 0;
  fetch.due = now + (retry_after < 0 ? fetch.delay : retry_after);
  ++fetch.origin->delayed;
}

void FetchSchedule::recall(Origin& origin, Nanos now) {
  for (auto& [id, fetch] : fetches_) {
    if (fetch.origin != &origin || fetch.due < 0 || !fetch.is_recallable) continue;
    fetch.due = std::min(fetch.due, now + static_cast<Nanos>(jitter(0, kRecall)));
  }
}

void FetchSchedule::look_at_clocks(Nanos now) {
  next_look_ = now + kLook;
  for (auto& [key, origin] : origins_) {
    const double seconds = static_cast<double>(now - std::exchange(origin->refilled, now)) / kSecond;
    origin->retry_tokens = std::min(kMostRetryTokens, origin->retry_tokens + kProbes * seconds);
    set_limits(*origin);
  }
  // What somebody waits for has the first of the budget: what is read ahead must not use it up.
  for (auto& [id, fetch] : fetches_)
    if (fetch.urged) repeat_if_due(fetch, now);
  for (auto next = fetches_.begin(); next != fetches_.end();) {
    Fetch& fetch = (next++)->second;
    Origin& origin = *fetch.origin;
    if (fetch.progressed >= 0 && now - fetch.progressed > fetch.patience) {
      step_.given_up.push_back(fetch.id);
      drop(fetch.id);
      continue;
    }
    repeat_if_due(fetch, now);
    for (const AttemptId id : {fetch.first, fetch.second}) give_up_if_stalled(id, origin, now);
    ask_again_if_crawling(fetch, now);
    hedge(fetch, now);
  }
}

void FetchSchedule::repeat_if_due(Fetch& fetch, Nanos now) {
  Origin& origin = *fetch.origin;
  if (fetch.due < 0 || now < fetch.due || origin.retry_tokens < 1) return;
  --origin.delayed;
  fetch.due = -1;
  repeat(fetch);
}

/// REQUIRES: a repetition is within the budget, and no attempt is under way.
void FetchSchedule::repeat(Fetch& fetch) {
  fetch.origin->retry_tokens -= 1;
  ++counts_.retries;
  fetch.hedged = false;
  fetch.queued = true;
  auto& queue = fetch.origin->queue;
  const auto waits = [this](FetchId id) {
    const Fetch* const other = find(id);
    return other != nullptr && other->urged;
  };
  queue.insert(fetch.urged ? queue.begin() : std::find_if_not(queue.begin(), queue.end(), waits), fetch.id);
}

/// Once for all attempts: quantiles are not free.
void FetchSchedule::set_limits(Origin& origin) const noexcept {
  origin.slow = std::max(rules_.least_rate, rules_.least_share * origin.latencies.rate());
  origin.stall = rules_.stall;
  origin.late = 0;
  if (origin.latencies.count() < kTelling) return;
  const Nanos most = origin.latencies.quantile(kLate);
  origin.stall = std::clamp(10 * most, std::min(rules_.least_stall, rules_.stall), rules_.stall);
  origin.late = std::max(rules_.least_hedge, most);
}

void FetchSchedule::give_up_if_stalled(AttemptId id, Origin& origin, Nanos now) {
  if (id == 0 || now - attempts_.at(id).heard <= origin.stall) return;
  ++counts_.stalled;
  step_.cancels.push_back(id);
  end(id, Ending::kFailed, -1, now);
  // One silent request says nothing of a server that answers others.
  if (now - origin.heard > origin.stall) origin.limit.throttled(now);
}

/// A body that crawls is ended only where the rest of it, and no more, can be asked for at once: it is better
/// than none.
void FetchSchedule::ask_again_if_crawling(Fetch& fetch, Nanos now) {
  Origin& origin = *fetch.origin;
  if (fetch.speaker == 0 || !fetch.goes_on || origin.retry_tokens < 1) return;
  const Attempt& attempt = attempts_.at(fetch.speaker);
  if (now - attempt.on_pace <= origin.stall) return;
  // Where all bodies have become so slow, it is their rate that is soon compared with.
  origin.latencies.add_slow_body(attempt.bytes, now - attempt.answered);
  ++counts_.stalled;
  cancel_attempts(fetch, 0);
  repeat(fetch);
}

void FetchSchedule::hedge(Fetch& fetch, Nanos now) {
  Origin& origin = *fetch.origin;
  if (fetch.hedged || fetch.first == 0 || fetch.speaker != 0 || origin.hedge_tokens < 1) return;
  if (origin.late == 0 || now - attempts_.at(fetch.first).began <= origin.late) return;
  origin.hedge_tokens -= 1;
  fetch.hedged = true;
  start(fetch, /*is_hedge=*/true, now);
}

void FetchSchedule::start_waiting(Origin& origin, Nanos now) {
  while (!origin.queue.empty() && origin.running < origin.limit.limit()) {
    Fetch* const fetch = find(origin.queue.front());
    origin.queue.pop_front();
    if (fetch == nullptr || !std::exchange(fetch->queued, false)) continue;
    start(*fetch, /*is_hedge=*/false, now);
  }
}

double FetchSchedule::jitter(double low, double high) {
  return std::uniform_real_distribution<double>(low, std::max(low, high))(random_);
}

}  // namespace torch_distinput
