// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/arena.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include "base/cpus.h"
#include "base/fork_guard.h"
#include "base/stage.h"
#include "runtime/arena_cpus.h"
#include "runtime/side_by_side.h"

namespace torch_distinput {
namespace {

class SerialExecutor final : public Executor {
 public:
  void submit(std::function<void()>) override {
    throw std::logic_error("serial_executor: `submit` was called, but there is no thread to run the task.");
  }
  int concurrency() const noexcept override { return 0; }
};

/// Whether the calling thread runs a task of an arena.
thread_local bool in_task = false;

/// Marks the calling thread while a task runs on it.
class TaskScope {
 public:
  TaskScope() noexcept { in_task = true; }
  ~TaskScope() { in_task = outer_; }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

 private:
  const bool outer_ = in_task;
};

/// An arena whose threads sleep as soon as there is nothing to do, where oneTBB offers that. By default they
/// spin for about a millisecond first, which takes CPU time from the consumer.
tbb::task_arena make_task_arena(int threads) {
  constexpr unsigned kReservedForMasters = 0;
#ifdef TBB_HAS_PARALLEL_PHASE
  return tbb::task_arena(threads, kReservedForMasters, tbb::task_arena::priority::normal,
                         tbb::task_arena::leave_policy::fast);
#else
  return tbb::task_arena(threads, kReservedForMasters);
#endif
}

/// Has the threads of an arena run where batches are to be built.
class ThreadPlacer final : public tbb::task_scheduler_observer {
 public:
  explicit ThreadPlacer(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) { observe(true); }
  ~ThreadPlacer() override { observe(false); }
  ThreadPlacer(const ThreadPlacer&) = delete;
  ThreadPlacer& operator=(const ThreadPlacer&) = delete;

  void on_scheduler_entry(bool is_worker) override {
    if (is_worker) place_arena_thread();
  }
};

class Arena final : public Executor {
 public:
  explicit Arena(int threads)
      : threads_(threads),
        worker_per_cpu_(tbb::global_control::max_allowed_parallelism,
                        static_cast<std::size_t>(available_cpus()) + 1),
        arena_(make_task_arena(threads)) {}

#ifdef __SANITIZE_THREAD__
  // oneTBB is not instrumented, so ThreadSanitizer must be told that a task happens after its submission.
  void submit(std::function<void()> task) override {
    place_threads();
    auto* const boxed = new std::function<void()>([work = current_work(), task = std::move(task)] {
      const WorkScope scope(work);
      task();
    });
    __tsan_release(boxed);
    arena_.enqueue([boxed]() noexcept {
      __tsan_acquire(boxed);
      (*boxed)();
      delete boxed;
    });
  }
#else
  void submit(std::function<void()> task) override {
    place_threads();
    arena_.enqueue([work = current_work(), task = std::move(task)]() noexcept {
      const WorkScope scope(work);
      const TaskScope here;
      task();
    });
  }
#endif
  int concurrency() const noexcept override { return threads_; }

 private:
  /// At the first task, because to observe an arena starts oneTBB, which a process may never need.
  void place_threads() {
    if (arenas_are_kept()) std::call_once(placing_, [this] { placer_.emplace(arena_); });
  }

  int threads_;
  // oneTBB counts the caller as one of its threads and starts one less than there are CPUs. Callers of this
  // library mostly sleep or feed a device, so the arenas may use every CPU.
  tbb::global_control worker_per_cpu_;
  tbb::task_arena arena_;
  std::once_flag placing_;
  std::optional<ThreadPlacer> placer_;
};

/// Whether this process is a forked child of the process that has the oneTBB threads. The first caller's
/// process is the one that has them.
bool inherited_arena() {
  static const ForkGuard first_caller;
  return first_caller.inherited();
}

int local_world_size() {
  const char* text = std::getenv("LOCAL_WORLD_SIZE");
  if (text == nullptr) return 1;
  int size = 1;
  const auto parsed = std::from_chars(text, text + std::strlen(text), size);
  return parsed.ec == std::errc() && size >= 1 ? size : 1;
}

}  // namespace

std::shared_ptr<Executor> shared_arena() {
  if (inherited_arena()) return serial_executor();
  // Leaked: at exit, static destruction is not ordered with oneTBB's own threads nor with users' iterators
  // that are still alive.
  static const auto* const arena =
      new std::shared_ptr<Executor>(make_arena(std::max(1, available_cpus() / local_world_size())));
  return *arena;
}

std::shared_ptr<Executor> make_arena(int threads) {
  if (threads < 1) {
    throw std::invalid_argument("make_arena: `threads` must be at least 1, but is " +
                                std::to_string(threads) + ".");
  }
  if (inherited_arena()) return serial_executor();
  return std::make_shared<Arena>(threads);
}

void side_by_side(std::int64_t count, std::int64_t least,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& work) {
  // A piece longer than twice `least` is halved. ThreadSanitizer runs have no tasks that are marked: oneTBB
  // hands pieces over by means that it cannot see.
  if (!in_task || count < 2 * least) return work(0, count);
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, static_cast<std::size_t>(2 * least)),
        [&](const auto& piece) { work(piece.begin(), piece.end()); }, tbb::simple_partitioner());
  });
}

std::shared_ptr<Executor> serial_executor() { return std::make_shared<SerialExecutor>(); }

}  // namespace torch_distinput
