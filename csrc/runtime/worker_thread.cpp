// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_thread.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include <pthread.h>
#include <signal.h>

#include "base/stage.h"
#include "runtime/arena.h"

namespace torch_distinput {
namespace {

/// Blocks all signals of the calling thread while it lives; a thread that is started meanwhile inherits that.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

std::shared_ptr<std::thread> start(const std::string& name, std::function<void()> body) {
  const SignalsBlocked blocked;
  constexpr std::size_t kLongestName = 15;
  return std::make_shared<std::thread>(
      [name = name.substr(0, kLongestName), work = current_work(), body = std::move(body)]() noexcept {
        ::pthread_setname_np(::pthread_self(), name.c_str());
        const WorkScope scope(work);
        body();
      });
}

struct Task {
  std::function<void()> run;
  std::shared_ptr<Counters> work;
};

/// What the threads of a pool share. Each of them keeps it alive, because a task may destroy the executor.
struct TaskQueue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  std::size_t idle = 0;  ///< threads that wait for a task, or start
  bool stopped = false;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopped || !tasks.empty(); });
      --idle;
      if (stopped) return;
      Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      {
        const WorkScope scope(std::move(task.work));
        task.run();
        task.run = nullptr;
      }
      lock.lock();
      ++idle;
    }
  }
};

class ThreadPool final : public Executor {
 public:
  // Delegates, so that the destructor stops the first threads where a later one cannot start.
  ThreadPool(int threads, const std::string& name, int at_once)
      : ThreadPool(static_cast<std::size_t>(threads), name) {
    const std::lock_guard lock(queue_->mutex);
    for (int i = 0; i < at_once; ++i) start_thread();
  }

  ~ThreadPool() override {
    if (queue_.inherited()) return;
    std::deque<Task> dropped;
    {
      const std::lock_guard lock(queue_->mutex);
      queue_->stopped = true;
      dropped.swap(queue_->tasks);
    }
    queue_->changed.notify_all();
  }

  void submit(std::function<void()> task) override {
    {
      const std::lock_guard lock(queue_->mutex);
      queue_->tasks.push_back({std::move(task), current_work()});
      if (queue_->tasks.size() > queue_->idle && threads_.size() < most_) start_another();
    }
    queue_->changed.notify_one();
  }
  int concurrency() const noexcept override { return static_cast<int>(most_); }
  bool has_waiting() const override {
    const std::lock_guard lock(queue_->mutex);
    return !queue_->tasks.empty();
  }

 private:
  ThreadPool(std::size_t most, std::string name)
      : most_(most), name_(std::move(name)), queue_(std::make_shared<TaskQueue>()) {
    // A forked child that destroys them may be forked while another one is added.
    threads_.reserve(most);
  }

  // With the queue's lock.
  void start_thread() {
    threads_.push_back(std::make_unique<WorkerThread>(name_, [queue = queue_.share()] { queue->run(); }));
    ++queue_->idle;
  }
  /// Those that there are do the work where the system has no further one.
  void start_another() {
    try {
      start_thread();
    } catch (const std::system_error&) {
    }
  }

  const std::size_t most_;
  const std::string name_;
  ProcessOwned<TaskQueue> queue_;
  std::vector<std::unique_ptr<WorkerThread>> threads_;  ///< changes with the queue's lock
};

}  // namespace

WorkerThread::WorkerThread(const std::string& name, std::function<void()> body)
    : thread_(start(name, std::move(body))) {}

WorkerThread::~WorkerThread() {
  if (thread_.inherited()) return;
  if (thread_->get_id() == std::this_thread::get_id()) {
    thread_->detach();
  } else {
    thread_->join();
  }
}

void run_apart(const std::string& name, std::function<void()> body, std::chrono::milliseconds timeout) {
  struct Run {
    std::function<void()> body;
    std::promise<void> ended;
    std::unique_ptr<WorkerThread> thread;  // destroyed by the last of the two threads that share this
  };
  const auto run = std::make_shared<Run>();
  run->body = std::move(body);
  const std::future<void> end = run->ended.get_future();
  try {
    run->thread = std::make_unique<WorkerThread>(name, [run] {
      run->body();
      run->body = nullptr;
      run->ended.set_value();
    });
  } catch (const std::system_error&) {
    run->body();
    return;
  }
  end.wait_for(timeout);
}

std::shared_ptr<Executor> make_thread_pool(int threads, const std::string& name) {
  return make_thread_pool(threads, name, threads);
}

std::shared_ptr<Executor> make_thread_pool(int threads, const std::string& name, int at_once) {
  if (threads < 1) {
    throw std::invalid_argument("make_thread_pool: `threads` must be at least 1, but is " +
                                std::to_string(threads) + ".");
  }
  return std::make_shared<ThreadPool>(threads, name, std::clamp(at_once, 1, threads));
}

}  // namespace torch_distinput
