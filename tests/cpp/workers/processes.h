// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace torch_distinput {

/// A forked process that runs a function, is killed with this object, and ends after 20 seconds.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<void()>& body) : id_(::fork()) {
    if (id_ != 0) return;
    ::alarm(20);
    body();
    ::_exit(0);
  }
  ~ChildProcess() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    wait();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  void kill(int signal) const { ::kill(id_, signal); }
  /// The exit status; waits for the end.
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return status;
  }

 private:
  pid_t id_;
};

}  // namespace torch_distinput
