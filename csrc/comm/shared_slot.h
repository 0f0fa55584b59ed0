// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>

namespace torch_distinput {

/// What all copies of a ProcessGroup share, made by the first that needs it. A room below does not know its
/// type.
struct SharedSlot {
  std::mutex mutex;
  std::shared_ptr<void> held;

  /// What is held, which `make()` makes at the first call. REQUIRES: all calls are for the same type.
  template <class Make>
  auto get(Make make) -> decltype(make()) {
    using Held = typename decltype(make())::element_type;
    const std::lock_guard lock(mutex);
    if (!held) held = make();
    return std::static_pointer_cast<Held>(held);
  }
};

}  // namespace torch_distinput
