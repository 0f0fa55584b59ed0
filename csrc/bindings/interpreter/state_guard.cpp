// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/interpreter/state_guard.h"

#ifdef Py_GIL_DISABLED

#include <pthread.h>

namespace torch_distinput {
namespace {

// Python's own mutex: a thread that waits for it holds up neither the garbage collector nor a fork.
PyMutex shared_state{};

/// A forked child has none of the threads that may have held the lock.
[[maybe_unused]] const int kFreeInChild = ::pthread_atfork(nullptr, nullptr, [] { shared_state = {}; });

}  // namespace

StateGuard::StateGuard() noexcept { PyMutex_Lock(&shared_state); }

StateGuard::~StateGuard() { PyMutex_Unlock(&shared_state); }

}  // namespace torch_distinput

#endif
