// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/timed_caller.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>

#include "runtime/worker_thread.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using Seconds = std::chrono::duration<double>;

/// Bounds of the time between two checks for interrupts and for the failure of another call.
constexpr std::chrono::milliseconds kLongestSlice{50};
constexpr std::chrono::milliseconds kShortestSlice{1};

}  // namespace

struct TimedCaller::Shared {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> jobs;
  Seconds limit = std::chrono::minutes{5};
  std::string lost;  // why later calls are refused; empty: no call has taken too long
  bool stopped = false;
  std::optional<WorkerThread> thread;  // shares the ownership of this, so that no owner needs to join it

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return stopped || !jobs.empty(); });
      if (jobs.empty()) return;
      const auto job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }
};

TimedCaller::TimedCaller() : shared_(std::make_shared<Shared>()) {}

TimedCaller::~TimedCaller() {
  if (shared_.inherited()) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->stopped = true;
  shared_->wake.notify_one();
}

void TimedCaller::expect_within(Seconds limit) {
  const std::lock_guard lock(shared_->mutex);
  shared_->limit = std::min(shared_->limit, limit);
}

void TimedCaller::enter(std::function<void()> job) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->lost.empty()) throw NoAnswer(shared_->lost);
    // Most processes of a host make no call.
    if (!shared_->thread)
      shared_->thread.emplace("tdi-store", [shared = shared_.share()] { shared->serve(); });
    shared_->jobs.push_back(std::move(job));
  }
  // Notified without the lock, which the thread would wake up only to wait for.
  shared_->wake.notify_one();
}

Seconds TimedCaller::limit() const {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->lost.empty()) throw NoAnswer(shared_->lost);
  return shared_->limit;
}

void TimedCaller::wait_for(const std::function<bool(Seconds)>& answered) {
  Seconds waited{};
  while (true) {
    const Seconds most = limit();
    const Seconds slice = std::clamp<Seconds>(most - waited, kShortestSlice, kLongestSlice);
    const auto before = std::chrono::steady_clock::now();
    if (answered(slice)) return;
    // Time in which this process did not run (stopped, suspended) does not count.
    waited += std::min<Seconds>(std::chrono::steady_clock::now() - before, 2 * slice);
    if (waited >= most) break;
    if (const auto& check = interrupt_check()) check();
  }
  const std::lock_guard lock(shared_->mutex);
  std::ostringstream text;
  text << "no answer for " << shared_->limit.count() << " s";
  shared_->lost = text.str();
  throw NoAnswer(shared_->lost);
}

}  // namespace torch_distinput
