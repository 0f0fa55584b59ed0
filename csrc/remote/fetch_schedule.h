// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "remote/concurrency_limit.h"
#include "remote/fetch_counts.h"
#include "remote/latencies.h"

namespace torch_distinput {

/// Names a fetch: one wish for bytes, carried out by one or several attempts.
using FetchId = std::uint64_t;
/// Names an attempt: one request.
using AttemptId = std::uint64_t;

/// When attempts are given up, repeated and doubled.
struct FetchRules {
  Nanos stall = 10 * kSecond;       ///< an attempt without a byte for so long is given up
  Nanos least_stall = 2 * kSecond;  ///< where the server is known to answer sooner: after ten times that
  Nanos first_delay = 50 * kMillisecond;  ///< before the first repetition, with jitter
  Nanos most_delay = 20 * kSecond;
  double retry_share = 0.10;              ///< repetitions beside requests
  double hedge_share = 0.02;              ///< doubled requests beside requests
  Nanos least_hedge = 50 * kMillisecond;  ///< a request is not doubled before
  double least_rate = 1024;               ///< bytes a second; a body that brings fewer makes no progress
  double least_share = 0.05;  ///< of the rate of the server's other bodies; slower ones are asked for again
};

/// What became of an attempt.
enum class Ending {
  kDone,       ///< the fetch has what it wanted
  kAgain,      ///< the server named another place: ask there at once
  kFailed,     ///< this attempt failed; another may do better
  kThrottled,  ///< the server has too much to do
  kRefused,    ///< no attempt will do better
};

/// Decides when requests start, are repeated, doubled and given up. A state machine without threads, clock
/// and sockets: `step(now)` says what to do, and the other calls what has happened. Fetches start in the
/// order in which they came, but for those that are urged, which go first. One thread at a time.
class FetchSchedule {
 public:
  explicit FetchSchedule(FetchRules rules, std::uint64_t seed);
  ~FetchSchedule();

  /// A fetch from `origin` (scheme, host and port), which is given up after `patience` without progress.
  /// `goes_on`: a repetition asks only for what has not come; else it begins anew.
  void add(FetchId fetch, const std::string& origin, Nanos patience, bool goes_on, Nanos now);
  /// Somebody waits for the fetch now: it starts, and is repeated, before others. Unknown ones are ignored,
  /// here and below.
  void urge(FetchId fetch);
  /// Nobody wants the fetch any more.
  void drop(FetchId fetch);

  /// The response to the attempt begins with a body, or ends without one. Returns whether the attempt
  /// speaks for its fetch from now on; false: another one does, and this one is to be cancelled.
  bool first_byte(AttemptId attempt, Nanos now);
  /// The attempt brought `bytes` of what its fetch wants; 0: it brought others, such as the text of an error.
  void progress(AttemptId attempt, std::uint64_t bytes, Nanos now);
  /// The attempt ended. `retry_after`: the server asks to wait for so long; -1: it does not.
  void end(AttemptId attempt, Ending ending, Nanos retry_after, Nanos now);

  /// What to do now.
  struct Step {
    struct Start {
      AttemptId attempt;
      FetchId fetch;
      bool is_hedge;  ///< to be made over a new connection
    };
    std::vector<Start> starts;
    std::vector<AttemptId> cancels;
    std::vector<FetchId> given_up;  ///< without progress for too long; they are dropped
    Nanos wake;                     ///< the time of the next `step` if nothing happens before
  };
  Step step(Nanos now);

  const FetchCounts& counts() const noexcept { return counts_; }
  /// What is known of a server; null before its first fetch.
  const Latencies* latencies(const std::string& origin) const noexcept;
  /// Requests that may run at a time, and that do; 0 for an unknown server.
  int limit(const std::string& origin) const noexcept;
  int running(const std::string& origin) const noexcept;
  /// The limit of the server that was asked most; 0 before the first request.
  int limit_of_busiest() const noexcept;

 private:
  /// A server, its limit and its queue.
  struct Origin {
    ConcurrencyLimit limit;
    Latencies latencies;
    std::deque<FetchId> queue;  ///< fetches without an attempt; dropped ones are passed over
    int running = 0;            ///< attempts
    std::int64_t requests = 0;  ///< attempts so far
    int delayed = 0;            ///< fetches that wait to be repeated
    double retry_tokens = 10;
    double hedge_tokens = 1;
    Nanos refilled = 0;
    Nanos heard = 0;  ///< when a byte came last
    // By the latencies, as the clocks were looked at last.
    Nanos stall = 0;  ///< an attempt without a byte for so long is given up
    Nanos late = 0;   ///< a request without an answer for so long is late; 0: too few answers tell
    double slow = 0;  ///< bytes a second; slower bodies crawl
  };
  struct Fetch {
    FetchId id;
    Origin* origin;
    Nanos patience;
    bool goes_on;
    std::uint64_t most = 0;     ///< bytes that an attempt brought which has ended
    Nanos progressed = -1;      ///< until when what came suffices, at the least rate; -1: it has not begun
    Nanos due = -1;             ///< when it may be repeated; -1: it does not wait for that
    bool is_recallable = true;  ///< may be repeated before `due` once the server answers others
    Nanos delay = 0;            ///< the last one
    int tries = 0;
    bool hedged = false;
    bool queued = false;
    bool urged = false;
    AttemptId first = 0;    ///< an attempt under way; 0: none
    AttemptId second = 0;   ///< a doubled one
    AttemptId speaker = 0;  ///< the one of both whose body counts; 0: neither yet
  };
  struct Attempt {
    FetchId fetch;
    Nanos began;
    Nanos heard;          ///< when its last byte came
    Nanos answered = -1;  ///< when its first byte came
    Nanos on_pace = -1;   ///< until when what came suffices, at the rate below which bodies crawl
    std::uint64_t bytes = 0;
    bool is_hedge;
  };

  Fetch* find(FetchId id) noexcept;
  void start(Fetch& fetch, bool is_hedge, Nanos now);
  void cancel_attempts(Fetch& fetch, AttemptId but);
  void end_attempt(AttemptId id);
  void wait_to_retry(Fetch& fetch, Nanos retry_after, Nanos now);
  void repeat_if_due(Fetch& fetch, Nanos now);
  void repeat(Fetch& fetch);
  void recall(Origin& origin, Nanos now);
  void set_limits(Origin& origin) const noexcept;
  void pass(Nanos now) noexcept;
  void give_up_if_stalled(AttemptId id, Origin& origin, Nanos now);
  void ask_again_if_crawling(Fetch& fetch, Nanos now);
  void look_at_clocks(Nanos now);
  void hedge(Fetch& fetch, Nanos now);
  void start_waiting(Origin& origin, Nanos now);
  double jitter(double low, double high);

  FetchRules rules_;
  std::mt19937_64 random_;
  std::map<std::string, std::unique_ptr<Origin>, std::less<>> origins_;
  std::map<FetchId, Fetch> fetches_;
  std::map<AttemptId, Attempt> attempts_;
  AttemptId next_attempt_ = 1;
  Nanos next_look_ = 0;
  Step step_{};  ///< what the next `step` returns
  FetchCounts counts_;
  Nanos counted_ = 0;     ///< until when its times are
  int unanswered_ = 0;    ///< attempts without a first byte
  bool is_full_ = false;  ///< a limit keeps fetches waiting
};

}  // namespace torch_distinput
