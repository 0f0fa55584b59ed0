// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include <c10/util/Exception.h>

#include "core/interrupt_watch.h"
#include "torch_distinput/error.h"
#include "torch_distinput/function.h"

namespace torch_distinput {

/// Returns `call()`, which runs `code`. What it throws says afterwards where: a c10::Error gets `where()`, a
/// text such as `map(parse): element 7`, as context and keeps its type; another std::exception is nested in a
/// UserCodeError. Interrupts, and errors of code that locates its own, pass as they are.
template <class Where, class Call>
auto locate_errors(const UserCode& code, const Where& where, const Call& call) -> decltype(call()) {
  if (code.locates_errors()) return call();
  const InterruptWatch watch;
  try {
    return call();
  } catch (c10::Error& error) {
    if (!watch.interrupt()) error.add_context(where());
    throw;
  } catch (const std::exception& error) {
    if (watch.interrupt()) throw;
    std::throw_with_nested(UserCodeError(where() + ": " + error.what()));
  }
}

}  // namespace torch_distinput
