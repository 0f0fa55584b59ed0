// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace torch_distinput {

/// Runs `check` in a forked child. Returns true if it returned true there within 20 seconds.
inline bool true_in_forked_child(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace torch_distinput
