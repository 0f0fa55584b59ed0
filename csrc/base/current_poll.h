// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// The Poll of this thread, for waits inside of functions that take none. A reference to an empty function
/// where there is none.
TDI_API const std::function<void()>& current_poll() noexcept;
/// Makes `poll`, which must live until it is replaced, the Poll of this thread. Returns the one before it.
const std::function<void()>* exchange_current_poll(const std::function<void()>* poll) noexcept;

}  // namespace torch_distinput
