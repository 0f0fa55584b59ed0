// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/replica_threads.h"

#include <condition_variable>
#include <string>
#include <utility>

#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

/// Counts the calls of one `run` that have not ended. Tasks share it: the last one may still notify when the
/// caller goes on.
struct Running {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t calls;

  void end_one() {
    const std::lock_guard lock(mutex);
    if (--calls == 0) changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return calls == 0; });
  }
};

}  // namespace

void ReplicaThreads::run(const std::function<void(std::size_t)>& call) {
  const auto running = std::make_shared<Running>();
  running->calls = replicas_;
  {
    // Held while tasks are queued only: all threads see the calls of several `run`s in the same order.
    const std::lock_guard lock(mutex_);
    if (threads_.empty() || fork_guard_.inherited()) {
      std::vector<std::shared_ptr<Executor>> started;
      for (std::size_t replica = 0; replica < replicas_; ++replica)
        started.push_back(make_thread_pool(1, "tdi-replica-" + std::to_string(replica)));
      threads_ = std::move(started);
      fork_guard_ = ForkGuard();
    }
    for (std::size_t replica = 0; replica < replicas_; ++replica) {
      threads_[replica]->submit([&call, running, replica] {
        call(replica);
        running->end_one();
      });
    }
  }
  running->wait();
}

}  // namespace torch_distinput
