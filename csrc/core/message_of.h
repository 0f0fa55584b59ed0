// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace torch_distinput {

/// The message of `error`, without the addresses of frames, which differ between equal processes.
std::string message_of(const std::exception_ptr& error);

}  // namespace torch_distinput
