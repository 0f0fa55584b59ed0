// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "python/gil.h"
#include "python/handle.h"
#include "python/python_error.h"

namespace torch_distinput {

/// What the Python objects of all cursors do alike: one thread at a time, only in the process that made them,
/// stopped before the interpreter ends. Everything here needs the GIL.
class LiveCursor {
 public:
  LiveCursor(const LiveCursor&) = delete;
  LiveCursor& operator=(const LiveCursor&) = delete;

  /// For Python's garbage collector: exceptions hold frames, and frames hold cursors, as callables do.
  int traverse(visitproc visit, void* arg) const;
  void clear();

 protected:
  LiveCursor(std::string name, CodeReferences code);
  virtual ~LiveCursor();

  /// From now on neither the garbage collector nor the end of the interpreter looks at the cursor. Called
  /// before it is taken apart.
  void retire();
  /// Whether this is a forked child of the process that made the cursor.
  bool inherited() const noexcept;
  /// Throws RuntimeError in a forked child and while another thread is inside the cursor.
  void enter();
  void leave() noexcept { refusal_ = nullptr; }
  /// Throws the exception of a callable. The library keeps it too, to throw it again, but the garbage
  /// collector sees only the reference that is kept here.
  [[noreturn]] void rethrow(const PythonError& error);

 private:
  friend void stop_live_cursors();
  /// A call that stops what the cursor has running. It shares the cursor.
  virtual std::function<void()> stopper() = 0;

  std::string name_;
  pid_t process_;
  const char* refusal_ = nullptr;  ///< why the cursor cannot be used now
  PythonError::Raised error_;
  CodeReferences code_;
};

/// Runs `close` without the GIL. Where callables may be running on other threads it gets a thread of its own,
/// because it waits for them: Ctrl-C ends this wait.
void run_close(std::function<void()> close);
/// The same for at most a second, without a look at Ctrl-C and exceptions: callables that are still running
/// then are left to return by themselves.
void run_close_patiently(std::function<void()> close) noexcept;

/// Stops all cursors of this process; called before the interpreter ends.
void stop_live_cursors();

/// A cursor of the library as the inside of a Python object.
template <class Cursor>
class CursorHandle final : public LiveCursor {
 public:
  /// `code`: what the cursor may call.
  CursorHandle(std::string name, Cursor cursor, CodeReferences code)
      : LiveCursor(std::move(name), std::move(code)), cursor_(std::make_shared<Cursor>(std::move(cursor))) {}

  ~CursorHandle() override {
    const py::error_scope keep_error;
    retire();
    if (inherited()) {
      // Its threads and locks stayed behind in the parent.
      new std::shared_ptr<Cursor>(std::move(cursor_));
    } else {
      run_close_patiently([cursor = std::move(cursor_)]() mutable { cursor.reset(); });
    }
  }

  /// Calls `body(cursor)` without the GIL.
  template <class Body>
  auto call(Body&& body) {
    enter();
    const Leave leave_at_end{*this};
    try {
      const WaitScope wait;
      return body(*cursor_);
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
    CursorHandle& handle;
    ~Leave() { handle.leave(); }
  };

  std::function<void()> stopper() override {
    return [cursor = cursor_] { cursor->close(); };
  }

  std::shared_ptr<Cursor> cursor_;
};

}  // namespace torch_distinput
