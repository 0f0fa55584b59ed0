// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/file_error.h"

namespace torch_distinput {

/// Throws the public form of `error`, with `op` in front of its message: NotFoundError for a missing file,
/// SystemError for errors of the system, and InvalidArgumentError for damaged or changed files.
[[noreturn]] void throw_for_user(const FileError& error, const std::string& op);

/// Returns what `read` returns, and turns its FileErrors into their public form.
template <class Read>
auto with_file_errors(const std::string& op, Read read) {
  try {
    return read();
  } catch (const FileError& error) {
    throw_for_user(error, op);
  }
}

}  // namespace torch_distinput
