// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

namespace torch_distinput {

/// Whether a file or folder is of this user, and nobody else may write to it.
inline bool is_own(const struct ::stat& status) noexcept {
  return status.st_uid == ::geteuid() && (status.st_mode & 022) == 0;
}
inline bool is_own_file(const struct ::stat& status) noexcept {
  return S_ISREG(status.st_mode) && is_own(status);
}

}  // namespace torch_distinput
