// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/of_process.h"
#include "base/stage.h"
#include "remote/curl_transport.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

/// So much of the body of an error is read.
constexpr std::size_t kMostErrorBytes = std::size_t{64} << 10;
/// Answers that no server should give, one after the other, until a transfer fails.
constexpr int kMostLies = 6;
/// Redirects of a transfer until they are such answers: it may see those of others, beside the five in a row.
constexpr int kMostRedirects = 30;

Nanos now() { return clock_ns(); }

/// The error of transfers that end with their engine.
std::exception_ptr ended() {
  return std::make_exception_ptr(
      ObjectError(ObjectError::Kind::kUnavailable, "the reading of objects has ended", {}));
}

std::exception_ptr dropped() {
  return std::make_exception_ptr(ObjectError(ObjectError::Kind::kUnavailable, "nobody waits for it", {}));
}

/// What `call` throws; null where it throws nothing. Nothing else refers to it: who waits may end it.
template <class Call>
std::exception_ptr thrown_by(Call call) {
  try {
    call();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

OfProcess<Engine>& engine_place() {
  static auto& place = *new OfProcess<Engine>;
  return place;
}

}  // namespace

struct Engine::State final : public TransportListener {
  explicit State(FetchRules rules) : schedule(rules, std::random_device()()) {}

  /// A transfer under way.
  struct Fetch {
    TransferPtr transfer;
    Nanos began;
    std::string problem = "no answer came";  ///< the last one
    int lies = 0;
    int redirects = 0;
    int tries = 0;

    double seconds() const { return static_cast<double>(now() - began) / kSecond; }
    std::exception_ptr give_up(const std::string& why) const {
      return std::make_exception_ptr(transfer->give_up(why, tries, seconds()));
    }
  };
  /// An attempt under way.
  struct Attempt {
    FetchId fetch;
    HttpHead head = {};
    std::string error = {};  ///< the body of an answer that is an error
    Transfer::Verdict verdict = Transfer::Verdict::kRepeat;
    bool answered = false;
    bool overfull = false;
    // Since the schedule was told last.
    std::size_t taken = 0;   ///< bytes
    std::size_t wasted = 0;  ///< bytes
  };
  struct Command {
    enum class Kind { kBegin, kUrge, kDrop } kind;
    FetchId fetch;
    TransferPtr transfer;
  };

  // Any thread.
  void send(Command command) {
    bool is_first = false;
    {
      std::unique_lock lock(mutex);
      if (closed) {
        lock.unlock();
        if (command.transfer) command.transfer->finish(ended());
        return;
      }
      is_first = commands.empty();
      commands.push_back(std::move(command));
    }
    if (is_first) transport.wake();
  }

  // The engine's thread.
  void run();
  void close();
  void obey();
  void report(AttemptId id, Attempt& attempt);
  void start(const FetchSchedule::Step::Start& start);
  void refuse(AttemptId id, Attempt& attempt);
  void give_up(AttemptId id, FetchId fetch, const std::string& problem);
  void lie(AttemptId id, FetchId fetch, const std::string& problem);
  void conclude(AttemptId id, Attempt& attempt, const std::string& problem);
  void end(AttemptId id, Ending ending, Nanos retry_after = -1);
  void finish(FetchId id, std::exception_ptr error);
  bool on_head(AttemptId id, HttpHead head) override;
  bool on_body(AttemptId id, std::span<const char> bytes) override;
  void on_end(AttemptId id, const std::string& problem, AttemptEnd end) override;

  CurlTransport transport;
  std::atomic<FetchId> next_fetch{1};
  std::atomic<bool> stopped{false};

  mutable std::mutex
      mutex;  ///< guards `commands`, `closed`, and `schedule` and `counts` against their readers
  std::vector<Command> commands;
  bool closed = false;  ///< no command is carried out any more
  FetchSchedule schedule;
  EngineCounts counts;

  std::unordered_map<FetchId, Fetch> fetches;
  std::unordered_map<AttemptId, Attempt> attempts;
  std::vector<AttemptId> heard;  ///< attempts that brought bytes of which the schedule was not told
};

void Engine::State::run() {
  Nanos wake = 0;
  while (!stopped.load()) {
    const Nanos wait = std::clamp<Nanos>(wake - now(), 0, 100 * kSecond);
    transport.run(static_cast<int>((wait + kMillisecond - 1) / kMillisecond), *this);
    obey();
    FetchSchedule::Step step;
    {
      const std::lock_guard lock(mutex);
      for (const AttemptId id : heard) {
        if (const auto found = attempts.find(id); found != attempts.end()) report(id, found->second);
      }
      step = schedule.step(now());
    }
    heard.clear();
    wake = step.wake;
    for (const AttemptId id : step.cancels) {
      transport.cancel(id);
      attempts.erase(id);
    }
    for (const FetchId id : step.given_up) {
      if (const auto found = fetches.find(id); found != fetches.end())
        finish(id, found->second.give_up(found->second.problem));
    }
    for (const auto& begun : step.starts) start(begun);
  }
  close();
}

void Engine::State::close() {
  {
    const std::lock_guard lock(mutex);
    closed = true;
  }
  obey();
  while (!fetches.empty()) finish(fetches.begin()->first, ended());
}

void Engine::State::obey() {
  std::vector<Command> taken;
  {
    const std::lock_guard lock(mutex);
    taken.swap(commands);
  }
  for (Command& command : taken) {
    switch (command.kind) {
      case Command::Kind::kBegin: {
        const std::lock_guard lock(mutex);
        const Transfer& transfer = *command.transfer;
        schedule.add(command.fetch, transfer.origin(), transfer.patience(), transfer.goes_on(), now());
        fetches.emplace(command.fetch, Fetch{std::move(command.transfer), now()});
        break;
      }
      case Command::Kind::kUrge: {
        const std::lock_guard lock(mutex);
        schedule.urge(command.fetch);
        break;
      }
      case Command::Kind::kDrop:
        finish(command.fetch, dropped());
        break;
    }
  }
}

void Engine::State::start(const FetchSchedule::Step::Start& start) {
  const auto found = fetches.find(start.fetch);
  if (found == fetches.end()) return end(start.attempt, Ending::kRefused);
  ++found->second.tries;
  HttpRequest request;
  auto error =
      thrown_by([&] { request = found->second.transfer->request(std::chrono::system_clock::now()); });
  if (error) {
    end(start.attempt, Ending::kRefused);
    return finish(start.fetch, std::move(error));
  }
  attempts.emplace(start.attempt, Attempt{.fetch = start.fetch});
  transport.start(start.attempt, request, start.is_hedge);
}

bool Engine::State::on_head(AttemptId id, HttpHead head) {
  const auto found = attempts.find(id);
  if (found == attempts.end()) return false;
  Attempt& attempt = found->second;
  const auto fetch = fetches.find(attempt.fetch);
  if (fetch == fetches.end()) return false;
  {
    const std::lock_guard lock(mutex);
    if (!schedule.first_byte(id, now())) return false;
  }
  attempt.answered = true;
  attempt.head = std::move(head);
  auto error = thrown_by([&] { attempt.verdict = fetch->second.transfer->judge(attempt.head); });
  if (error) {
    finish(attempt.fetch, std::move(error));
    return false;
  }
  if (attempt.verdict == Transfer::Verdict::kTake)
    fetch->second.problem = "the rest of the answer did not come";
  return attempt.verdict == Transfer::Verdict::kTake || attempt.verdict == Transfer::Verdict::kRead;
}

bool Engine::State::on_body(AttemptId id, std::span<const char> bytes) {
  const auto found = attempts.find(id);
  if (found == attempts.end()) return false;
  Attempt& attempt = found->second;
  const auto fetch = fetches.find(attempt.fetch);
  if (fetch == fetches.end()) return false;
  if (attempt.taken + attempt.wasted == 0) heard.push_back(id);
  if (attempt.verdict == Transfer::Verdict::kTake) {
    attempt.taken += bytes.size();
    attempt.overfull = !fetch->second.transfer->take(bytes);
    return !attempt.overfull;
  }
  attempt.wasted += bytes.size();
  attempt.error.append(bytes.data(), std::min(bytes.size(), kMostErrorBytes - attempt.error.size()));
  return attempt.error.size() < kMostErrorBytes;
}

/// Tells the schedule what an attempt brought, once for the many pieces that it comes in. With `mutex` held.
void Engine::State::report(AttemptId id, Attempt& attempt) {
  if (attempt.taken + attempt.wasted == 0) return;
  counts.body_bytes += static_cast<std::int64_t>(attempt.taken);
  counts.wasted_bytes += static_cast<std::int64_t>(std::exchange(attempt.wasted, 0));
  schedule.progress(id, std::exchange(attempt.taken, 0), now());
}

void Engine::State::on_end(AttemptId id, const std::string& problem, AttemptEnd attempt_end) {
  const auto found = attempts.find(id);
  if (found == attempts.end()) return;
  Attempt attempt = std::move(found->second);
  attempts.erase(found);
  {
    const std::lock_guard lock(mutex);
    report(id, attempt);
  }
  if (attempt_end == AttemptEnd::kFinal) return give_up(id, attempt.fetch, problem);
  if (attempt_end == AttemptEnd::kLie) return lie(id, attempt.fetch, problem);
  conclude(id, attempt, problem);
}

void Engine::State::give_up(AttemptId id, FetchId fetch, const std::string& problem) {
  std::exception_ptr error;
  if (const auto found = fetches.find(fetch); found != fetches.end()) error = found->second.give_up(problem);
  end(id, Ending::kRefused);
  finish(fetch, std::move(error));
}

/// Servers may be mended while they answer oddly, but not for long.
void Engine::State::lie(AttemptId id, FetchId fetch, const std::string& problem) {
  const auto found = fetches.find(fetch);
  if (found == fetches.end()) return end(id, Ending::kRefused);
  if (++found->second.lies >= kMostLies) return give_up(id, fetch, problem);
  found->second.problem = problem;
  end(id, Ending::kFailed);
}

void Engine::State::conclude(AttemptId id, Attempt& attempt, const std::string& problem) {
  using Verdict = Transfer::Verdict;
  const auto found = fetches.find(attempt.fetch);
  if (found == fetches.end()) return end(id, Ending::kRefused);
  Fetch& fetch = found->second;
  if (!attempt.answered) {
    fetch.problem = problem.empty() ? "the server closed the connection" : problem;
    return end(id, Ending::kFailed);
  }
  switch (attempt.verdict) {
    case Verdict::kDone:
      end(id, Ending::kDone);
      return finish(attempt.fetch, nullptr);
    case Verdict::kRedirect:
      if (++fetch.redirects <= kMostRedirects) return end(id, Ending::kAgain);
      return lie(id, attempt.fetch, "the server redirects without end");
    case Verdict::kRead:
      return refuse(id, attempt);
    case Verdict::kTake:
      if (!attempt.overfull && fetch.transfer->is_whole(problem.empty())) {
        end(id, Ending::kDone);
        return finish(attempt.fetch, nullptr);
      }
      if (attempt.overfull) return lie(id, attempt.fetch, "more bytes came than were asked for");
      fetch.problem = problem.empty() ? "the answer ended too early" : problem;
      return end(id, Ending::kFailed);
    case Verdict::kRepeat:
      return lie(
          id, attempt.fetch,
          "the answer, of status " + std::to_string(attempt.head.status) + ", is not that to the question");
  }
}

void Engine::State::refuse(AttemptId id, Attempt& attempt) {
  Fetch& fetch = fetches.at(attempt.fetch);
  Transfer::Refusal refusal;
  auto error = thrown_by([&] { refusal = fetch.transfer->refuse(attempt.head, attempt.error, fetch.tries); });
  if (error) {
    end(id, Ending::kRefused);
    return finish(attempt.fetch, std::move(error));
  }
  fetch.problem = "the server answers with status " + std::to_string(attempt.head.status);
  end(id, refusal.is_throttled ? Ending::kThrottled : Ending::kFailed, refusal.retry_after);
}

void Engine::State::end(AttemptId id, Ending ending, Nanos retry_after) {
  const std::lock_guard lock(mutex);
  schedule.end(id, ending, retry_after, now());
}

void Engine::State::finish(FetchId id, std::exception_ptr error) {
  const auto found = fetches.find(id);
  if (found == fetches.end()) return;
  const TransferPtr transfer = std::move(found->second.transfer);
  fetches.erase(found);
  {
    const std::lock_guard lock(mutex);
    schedule.drop(id);
  }
  transfer->finish(std::move(error));
}

Engine& Engine::of_process() {
  Engine& engine = engine_place().get();
  // After libcurl was loaded, so that the thread ends before libcurl's TLS library cleans up.
  static const int registered = std::atexit([] {
    if (Engine* const known = engine_place().known()) known->end();
  });
  static_cast<void>(registered);
  return engine;
}

EngineCounts Engine::counts_of_process() {
  const Engine* const engine = engine_place().known();
  return engine == nullptr ? EngineCounts() : engine->counts();
}

Engine::Engine(FetchRules rules) : state_(std::make_shared<State>(rules)) {
  const WorkScope nobody(nullptr);  // the thread works for all iterators
  thread_ = std::make_unique<WorkerThread>("tdi-remote", [state = state_.share()] { state->run(); });
}

Engine::~Engine() { end(); }

void Engine::end() {
  if (state_.inherited()) return;
  state_->stopped = true;
  state_->transport.wake();
  thread_.reset();
}

FetchId Engine::begin(TransferPtr transfer) {
  const FetchId id = state_->next_fetch++;
  state_->send({State::Command::Kind::kBegin, id, std::move(transfer)});
  return id;
}

void Engine::urge(FetchId fetch) { state_->send({State::Command::Kind::kUrge, fetch, nullptr}); }

void Engine::drop(FetchId fetch) { state_->send({State::Command::Kind::kDrop, fetch, nullptr}); }

EngineCounts Engine::counts() const {
  const std::lock_guard lock(state_->mutex);
  EngineCounts counts = state_->counts;
  counts.fetches = state_->schedule.counts();
  counts.limit = state_->schedule.limit_of_busiest();
  return counts;
}

ServerView Engine::server(const std::string& origin) const {
  const std::lock_guard lock(state_->mutex);
  const Latencies* const known = state_->schedule.latencies(origin);
  if (known == nullptr) return {};
  return {state_->schedule.limit(origin), known->quantile(0.5), known->quantile(0.99), known->rate()};
}

}  // namespace torch_distinput
