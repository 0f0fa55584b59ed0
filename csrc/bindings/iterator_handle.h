// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include "base/fork_guard.h"
#include "bindings/handle.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/python_error.h"

namespace torch_distinput {

/// The common part of the Python objects of iterators: used by one thread at a time, only in the process that
/// made them, and stopped before the interpreter ends. Everything here needs the GIL.
class LiveIterator {
 public:
  LiveIterator(const LiveIterator&) = delete;
  LiveIterator& operator=(const LiveIterator&) = delete;

  /// For Python's garbage collector: callables hold iterators, and so do exceptions, through their frames.
  int traverse(visitproc visit, void* arg) const;
  void clear();

 protected:
  LiveIterator(std::string name, CodeReferences code);
  virtual ~LiveIterator();

  /// Shows the iterator to `stop_live_iterators`, which another thread may call. Called once all members are
  /// made.
  void enlist();
  /// Hides the iterator from the garbage collector and from `stop_live_iterators`. Called before its members
  /// are destroyed.
  void retire();
  /// Whether this is a forked child of the process that made the iterator.
  bool inherited() const noexcept { return fork_guard_.inherited(); }
  /// Begins a call. Throws FailedPreconditionError in a forked child, and c10::Error (RuntimeError) while
  /// another thread is inside the iterator or Python shuts down. Waits for one that only looks at it.
  void enter();
  /// Begins a look, which changes nothing and is soon over: no call of another thread fails because of it.
  /// Throws as `enter`.
  void enter_to_look();
  /// Ends a call or a look.
  void leave() noexcept;
  /// Throws the exception of a callable and keeps it here. The library keeps it too, to throw it again, but
  /// only the reference that is kept here is visible to the garbage collector.
  [[noreturn]] void rethrow(const PythonError& error);

 private:
  friend void stop_live_iterators();
  /// A function that stops the iterator's background work; it shares the iterator.
  virtual std::function<void()> stopper() = 0;
  void check_usable() const;
  const char* enter_after_looks();
  /// Refuses all use from now on; false where somebody uses it, or has done this.
  bool take_for_stop() noexcept;

  std::string name_;
  pid_t made_by_;  ///< the process, for messages
  ForkGuard fork_guard_;
  std::atomic<const char*> refusal_ = nullptr;  ///< why the iterator cannot be used now
  std::atomic<int> waiting_calls_ = 0;          ///< that begin before further looks
  PythonError::Raised error_;
  CodeReferences code_;
};

/// Runs `close` without the GIL. Where callables may be running on other threads, `close` waits for them, so
/// it runs on a thread of its own and Ctrl-C ends the wait for it.
void run_close(std::function<void()> close);
/// As `run_close`, but waits for at most a second and ignores Ctrl-C and exceptions; callables that are still
/// running then return later.
void run_close_briefly(std::function<void()> close) noexcept;

/// Stops all iterators of this process; called before the interpreter ends. From now on other threads begin
/// to run no Python code (`is_left_behind`); waits for a second at most for what they run, because Python
/// ends threads that take the GIL during its shutdown, and torch's functions do not live through that.
void stop_live_iterators();

/// The Python object of an iterator of the library.
template <class Wrapped>
class IteratorHandle final : public LiveIterator {
 public:
  /// `name` begins messages; `code`: the users' code that the iterator may call.
  IteratorHandle(std::string name, Wrapped iterator, CodeReferences code)
      : LiveIterator(std::move(name), std::move(code)),
        iterator_(std::make_shared<Wrapped>(std::move(iterator))) {
    enlist();
  }

  ~IteratorHandle() override {
    const py::error_scope keep_error;
    retire();
    if (inherited()) {
      // Its threads exist only in the parent and may hold its locks, so the iterator is leaked.
      new std::shared_ptr<Wrapped>(std::move(iterator_));
    } else {
      run_close_briefly([iterator = std::move(iterator_)]() mutable { iterator.reset(); });
    }
  }

  /// Calls `body(iterator)` without the GIL. Throws what it throws; Python exceptions as
  /// py::error_already_set.
  template <class Body>
  auto call(Body&& body) {
    enter();
    const Leave leave_at_end{*this};
    try {
      const WaitScope wait;
      return body(*iterator_);
    } catch (const PythonError& error) {
      rethrow(error);
    } catch (const PythonInterrupt& interrupt) {
      rethrow(interrupt.error);
    }
  }

  /// As `call`, for what only reads: threads that watch a program look at its iterators.
  template <class Body>
  auto look(Body&& body) {
    enter_to_look();
    const Leave leave_at_end{*this};
    const GilRelease release;
    return body(std::as_const(*iterator_));
  }

  /// Stops the iterator's background work; waits for running callables, which Ctrl-C ends.
  void close() {
    enter();
    const Leave leave_at_end{*this};
    run_close(stopper());
  }

 private:
  struct Leave {
    IteratorHandle& handle;
    ~Leave() { handle.leave(); }
  };

  std::function<void()> stopper() override {
    // What runs there are Python's functions, which take the GIL: `run_close` waits for them.
    return [iterator = iterator_] { iterator->close(std::chrono::milliseconds::max()); };
  }

  std::shared_ptr<Wrapped> iterator_;
};

}  // namespace torch_distinput
