// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bindings/handle.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/python_error.h"

namespace torch_distinput {

/// What the Python objects of all iterators do alike: one thread at a time, only in the process that made
/// them, stopped before the interpreter ends. Everything here needs the GIL.
class LiveIterator {
 public:
  LiveIterator(const LiveIterator&) = delete;
  LiveIterator& operator=(const LiveIterator&) = delete;

  /// For Python's garbage collector: exceptions hold frames, and frames hold iterators, as callables do.
  int traverse(visitproc visit, void* arg) const;
  void clear();

 protected:
  LiveIterator(std::string name, CodeReferences code);
  virtual ~LiveIterator();

  /// From now on neither the garbage collector nor the end of the interpreter looks at the iterator. Called
  /// before it is taken apart.
  void retire();
  /// Whether this is a forked child of the process that made the iterator.
  bool inherited() const noexcept;
  /// Throws RuntimeError in a forked child and while another thread is inside the iterator.
  void enter();
  void leave() noexcept { refusal_ = nullptr; }
  /// Throws the exception of a callable. The library keeps it too, to throw it again, but the garbage
  /// collector sees only the reference that is kept here.
  [[noreturn]] void rethrow(const PythonError& error);

 private:
  friend void stop_live_iterators();
  /// A call that stops what the iterator has running. It shares the iterator.
  virtual std::function<void()> stopper() = 0;

  std::string name_;
  pid_t process_;
  const char* refusal_ = nullptr;  ///< why the iterator cannot be used now
  PythonError::Raised error_;
  CodeReferences code_;
};

/// Runs `close` without the GIL. Where callables may be running on other threads it gets a thread of its own,
/// because it waits for them: Ctrl-C ends this wait.
void run_close(std::function<void()> close);
/// The same for at most a second, without a look at Ctrl-C and exceptions: callables that are still running
/// then are left to return by themselves.
void run_close_patiently(std::function<void()> close) noexcept;

/// Stops all iterators of this process; called before the interpreter ends.
void stop_live_iterators();

/// An iterator of the library as the inside of a Python object.
template <class Wrapped>
class IteratorHandle final : public LiveIterator {
 public:
  /// `code`: what the iterator may call.
  IteratorHandle(std::string name, Wrapped iterator, CodeReferences code)
      : LiveIterator(std::move(name), std::move(code)),
        iterator_(std::make_shared<Wrapped>(std::move(iterator))) {}

  ~IteratorHandle() override {
    const py::error_scope keep_error;
    retire();
    if (inherited()) {
      // Its threads and locks stayed behind in the parent.
      new std::shared_ptr<Wrapped>(std::move(iterator_));
    } else {
      run_close_patiently([iterator = std::move(iterator_)]() mutable { iterator.reset(); });
    }
  }

  /// Calls `body(iterator)` without the GIL.
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
    return [iterator = iterator_] { iterator->close(); };
  }

  std::shared_ptr<Wrapped> iterator_;
};

}  // namespace torch_distinput
