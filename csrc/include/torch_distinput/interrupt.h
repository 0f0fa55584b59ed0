// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <functional>

#include "torch_distinput/api.h"

namespace torch_distinput {

class InterruptWatch;

/// While one of these lives, waits of this thread inside the library call `check` about every 50 ms. What
/// `check` throws ends the wait and loses nothing. The Python bindings look for Ctrl-C this way. Scopes nest;
/// the innermost counts. Use it on the thread that made it.
///
/// Such an exception is not a failure of the pipeline: the call ends, the position stays, and the next call
/// continues. The same holds for an exception that was given to `report_interrupt`.
class TDI_API InterruptScope {
 public:
  /// `check` must not be empty. It is called on this thread, without any of the library's locks.
  explicit InterruptScope(std::function<void()> check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  std::function<void()> check_;
  const std::function<void()>* outer_;
  InterruptWatch* outer_watches_;
};

/// This thread's check; empty when there is none. Valid while the innermost scope lives.
TDI_API const std::function<void()>& interrupt_check();

/// For a user's code that waits for something, at least every 50 ms: true when its result will not be used,
/// because the iterator that it runs for was closed or moved to another position. It should return at once;
/// what it returns is dropped. Throws what `check` of this thread's InterruptScope throws.
TDI_API bool cancelled();

/// How long `close` of an iterator waits for users' code that is running, unless it is told otherwise: longer
/// than code that looks at `cancelled` as it should takes to see it, and so that `close` returns within 100
/// ms.
inline constexpr std::chrono::milliseconds kCloseTime{80};

/// Marks `interrupt`, which is about to be thrown, as an interrupt: a user's function that this thread runs
/// for its caller was interrupted. Without an InterruptScope on this thread it is an error like any other.
TDI_API void report_interrupt(const std::exception_ptr& interrupt) noexcept;

}  // namespace torch_distinput
