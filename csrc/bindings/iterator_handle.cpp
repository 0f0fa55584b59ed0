// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/iterator_handle.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include <c10/util/Exception.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "bindings/call_clock.h"
#include "bindings/interpreter/interpreter.h"
#include "bindings/interpreter/state_guard.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

/// How long to wait for callables that run on other threads, where the wait cannot be interrupted.
constexpr std::chrono::seconds kExitTime{1};
constexpr std::chrono::milliseconds kLookAgain{1};

constexpr const char* kShuttingDown = "Python is shutting down.";
constexpr const char* kInUse = "another thread is using this iterator, which serves one thread at a time.";
constexpr const char* kLookedAt = "another thread looks at this iterator.";

/// Guarded by the GIL, or by StateGuard; never destroyed, because iterators may outlive static objects.
std::unordered_set<LiveIterator*>& live_iterators() {
  static auto* const iterators = new std::unordered_set<LiveIterator*>;
  return *iterators;
}

/// Tells when some work on another thread has ended. Safe from any thread.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;

  void finish(std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex);
      done = true;
      error = std::move(failure);
    }
    changed.notify_all();
  }

  /// Waits for the end; throws what the interrupt check throws, and what the work threw.
  void wait() {
    constexpr std::chrono::milliseconds kPollInterval{50};
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kPollInterval, [this] { return done; })) {
      lock.unlock();
      interrupt_check()();
      lock.lock();
    }
    if (error) std::rethrow_exception(error);
  }

  void wait_until(Clock::time_point deadline) {
    std::unique_lock lock(mutex);
    changed.wait_until(lock, deadline, [this] { return done; });
  }
};

/// Starts `work` on a detached thread that blocks all signals, so that other threads receive them.
std::shared_ptr<Completion> start_detached(std::function<void()> work) {
  auto completion = std::make_shared<Completion>();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([completion, work = std::move(work)]() mutable noexcept {
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;
    completion->finish(failure);
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return completion;
}

}  // namespace

LiveIterator::LiveIterator(std::string name, CodeReferences code)
    : name_(std::move(name)), made_by_(::getpid()), code_(std::move(code)) {}

LiveIterator::~LiveIterator() { retire(); }

void LiveIterator::enlist() {
  const StateGuard guard;
  live_iterators().insert(this);
}

void LiveIterator::retire() {
  {
    const StateGuard guard;
    live_iterators().erase(this);
  }
  code_.clear();
}

void LiveIterator::enter() {
  check_usable();
  const char* refusal = nullptr;
  if (!refusal_.compare_exchange_strong(refusal, kInUse) && refusal == kLookedAt)
    refusal = enter_after_looks();
  TORCH_CHECK(refusal == nullptr, name_, ": ", refusal);
}

/// Waits without the GIL until it has begun a call: who looks again and again has the GIL between the looks.
/// Returns why there can be none; null: it has begun.
const char* LiveIterator::enter_after_looks() {
  const GilRelease release;
  ++waiting_calls_;
  const char* refusal = kLookedAt;
  while (refusal == kLookedAt) {
    refusal_.wait(kLookedAt);
    refusal = nullptr;
    refusal_.compare_exchange_strong(refusal, kInUse);
  }
  --waiting_calls_;
  waiting_calls_.notify_all();
  return refusal;
}

void LiveIterator::enter_to_look() {
  check_usable();
  if (const int waiting = waiting_calls_) {
    const GilRelease release;
    waiting_calls_.wait(waiting);
  }
  for (const char* refusal = nullptr; !refusal_.compare_exchange_strong(refusal, kLookedAt);
       refusal = nullptr) {
    TORCH_CHECK(refusal == kLookedAt, name_, ": ", refusal);
    const GilRelease release;
    refusal_.wait(kLookedAt);
  }
}

/// Throws in a forked child; a daemon thread sleeps here during the shutdown.
void LiveIterator::check_usable() const {
  if (inherited()) {
    throw FailedPreconditionError(name_ + ": the iterator was made before this process forked from process " +
                                  std::to_string(made_by_) + "; make a new one in the child.");
  }
  park_daemon();
}

void LiveIterator::leave() noexcept {
  refusal_.store(nullptr);
  refusal_.notify_all();
  park_daemon();
}

void LiveIterator::rethrow(const PythonError& error) {
  PythonError::Raised raised = error.take();
  if (raised.value) error_ = std::move(raised);
  if (error_.value) {
    error_.restore();
  } else {
    error.restore();
  }
  throw py::error_already_set();
}

int LiveIterator::traverse(visitproc visit, void* arg) const {
  Py_VISIT(error_.value.ptr());
  Py_VISIT(error_.traceback.ptr());
  return code_.traverse(visit, arg);
}

void LiveIterator::clear() {
  error_ = {};
  code_.clear();
}

void run_close(std::function<void()> close) {
  const bool alone = python_threads() == 0;
  const WaitScope wait;
  if (alone) return close();
  start_detached(std::move(close))->wait();
}

void run_close_briefly(std::function<void()> close) noexcept {
  const bool alone = python_threads() == 0;
  const GilRelease release;
  try {
    if (alone) return close();
    start_detached(std::move(close))->wait_until(Clock::now() + kExitTime);
  } catch (...) {
    return;  // a destructor has no caller to tell
  }
}

bool LiveIterator::take_for_stop() noexcept {
  const char* refusal = nullptr;
  return !inherited() && refusal_.compare_exchange_strong(refusal, kShuttingDown);
}

void stop_live_iterators() {
  begin_shutdown();
  const auto deadline = Clock::now() + kExitTime;
  std::vector<std::shared_ptr<Completion>> stops;
  for (bool is_busy = true; is_busy && Clock::now() < deadline;) {
    std::vector<std::function<void()>> stoppers;
    is_busy = others_run_python() || others_are_in_calls();
    {
      const StateGuard guard;
      for (LiveIterator* const iterator : live_iterators()) {
        if (iterator->take_for_stop()) stoppers.push_back(iterator->stopper());
      }
    }
    const GilRelease release;
    for (auto& stop : stoppers) stops.push_back(start_detached(std::move(stop)));
    if (is_busy) std::this_thread::sleep_for(kLookAgain);
  }
  const GilRelease release;
  for (const auto& stop : stops) stop->wait_until(deadline);
}

}  // namespace torch_distinput
