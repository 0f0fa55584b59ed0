// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/interpreter/gil.h"

#include <atomic>
#include <exception>
#include <functional>

#include <pthread.h>

#include "base/fork_guard.h"
#include "bindings/interpreter/py_ref.h"
#include "bindings/interpreter/python_error.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

std::atomic<int> thread_count = 0;
std::atomic<int> running = 0;     ///< scopes of all threads
thread_local int own_scopes = 0;  ///< of these, this thread's
std::atomic<std::int64_t> turns = 0;

void end_scope() noexcept {
  --own_scopes;
  --running;
}

/// Counts a scope; false: there may be no more on this thread. Counted first, so that `others_run_python`
/// sees it, or this sees that the shutdown has begun.
bool begin_scope() noexcept {
  ++running;
  ++own_scopes;
  if (interpreter_alive() && (!is_left_behind() || PyGILState_Check() != 0)) return true;
  end_scope();
  return false;
}

/// What this thread does in its scopes is over for others.
[[noreturn]] void park_here() noexcept {
  running -= own_scopes;
  park_thread();
}

/// A forked child has none of the parent's threads.
[[maybe_unused]] const int kForkHandler =
    ::pthread_atfork(nullptr, nullptr, [] { thread_count = 0, running = own_scopes; });

/// Apart from the kept state, which Python's own threads must not have.
thread_local bool has_kept_state = false;

/// Keeps the Python thread state of a thread that Python did not start.
class KeptThreadState {
 public:
  /// REQUIRES: the GIL, taken by a first PyGILState_Ensure of this thread.
  void keep() {
    PyGILState_Ensure();
    fork_guard_ = ForkGuard();
    ++thread_count;
    has_kept_state = true;
  }

  ~KeptThreadState() {
    if (fork_guard_.inherited()) return;
    --thread_count;
    if (!begin_scope()) return;
    run_python([] {
      PyGILState_Ensure();
      PyGILState_Release(PyGILState_LOCKED);
      PyGILState_Release(PyGILState_UNLOCKED);
    });
    end_scope();
  }

 private:
  ForkGuard fork_guard_;
};

thread_local KeptThreadState kept_thread_state;

PyGILState_STATE take_gil() {
  if (!begin_scope()) {
    const bool is_ours = has_kept_state || PyGILState_GetThisThreadState() == nullptr;
    if (is_left_behind() && !is_ours) park_here();
    throw FailedPreconditionError("a callable was called while Python shuts down.");
  }
  const bool known = PyGILState_GetThisThreadState() != nullptr;
  const PyGILState_STATE state = run_python([] { return PyGILState_Ensure(); });
  if (!known) kept_thread_state.keep();
  turns.fetch_add(1, std::memory_order_relaxed);
  return state;
}

/// `outer`: the check of the library's code that has called this Python code; it may be empty.
void check_wait(const std::function<void()>& outer) {
  {
    const GilScope gil;
    if (PyErr_CheckSignals() != 0) throw_python();
  }
  if (!outer) return;
  try {
    outer();
  } catch (const std::exception&) {
    throw;
  } catch (const PythonInterrupt&) {
    throw;
  } catch (...) {  // the library's own types mean nothing to Python, which must not take them for a failure
    const GilScope gil;
    set_error(PyExc_GeneratorExit, "the iterator that this code runs for was closed or moved.");
    throw_python();
  }
}

}  // namespace

GilScope::GilScope() : state_(take_gil()) { release_dropped(); }

GilScope::~GilScope() {
  PyGILState_Release(state_);
  end_scope();
}

GilRelease::~GilRelease() {
  if (is_left_behind()) park_here();
  run_python([this] { PyEval_RestoreThread(thread_); });
  release_dropped();
}

WaitScope::WaitScope() : interrupt_([&outer = interrupt_check()] { check_wait(outer); }) {}

std::int64_t gil_turns() noexcept { return turns; }

int python_threads() noexcept { return thread_count; }

bool others_run_python() noexcept { return running > own_scopes; }

void park_daemon() noexcept {
  if (!is_left_behind()) return;
  PyEval_SaveThread();
  park_here();
}

}  // namespace torch_distinput
