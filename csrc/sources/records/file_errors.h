// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/file_error.h"

namespace torch_distinput {

/// Throws what users get for `error`, which `op` met: NotFoundError, SystemError or InvalidArgumentError.
[[noreturn]] void throw_for_user(const FileError& error, const std::string& op);

/// What `read` returns; its FileErrors as users get them.
template <class Read>
auto with_file_errors(const std::string& op, Read read) {
  try {
    return read();
  } catch (const FileError& error) {
    throw_for_user(error, op);
  }
}

}  // namespace torch_distinput
