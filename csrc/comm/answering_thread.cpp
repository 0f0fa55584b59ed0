// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/answering_thread.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "runtime/worker_thread.h"

namespace torch_distinput {

struct AnsweringThread::Shared {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> jobs;
  std::chrono::duration<double> limit = std::chrono::minutes{5};
  std::string lost;  // why; empty: the last call was answered
  bool stopped = false;
  std::optional<WorkerThread> thread;  // ends with what it shares, so that nobody waits for it

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

AnsweringThread::AnsweringThread() : shared_(std::make_shared<Shared>()) {
  shared_->thread.emplace("tdi-store", [shared = shared_.share()] { shared->serve(); });
}

AnsweringThread::~AnsweringThread() {
  if (shared_.inherited()) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->stopped = true;
  shared_->wake.notify_one();
}

void AnsweringThread::expect_within(std::chrono::duration<double> limit) {
  const std::lock_guard lock(shared_->mutex);
  shared_->limit = std::min(shared_->limit, limit);
}

void AnsweringThread::enter(std::function<void()> job) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->lost.empty()) throw std::runtime_error(shared_->lost);
    shared_->jobs.push_back(std::move(job));
  }
  // Not under the lock: the thread would wake up only to wait for it.
  shared_->wake.notify_one();
}

void AnsweringThread::wait_for(const std::function<bool(std::chrono::duration<double>)>& answered) {
  std::chrono::duration<double> limit{};
  {
    const std::lock_guard lock(shared_->mutex);
    limit = shared_->limit;
  }
  if (answered(limit)) return;
  const std::lock_guard lock(shared_->mutex);
  std::ostringstream text;
  text << "no answer for " << limit.count() << " s";
  shared_->lost = text.str();
  throw std::runtime_error(shared_->lost);
}

}  // namespace torch_distinput
