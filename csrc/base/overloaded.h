// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// One callable made of several, for `std::visit`.
template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace torch_distinput
