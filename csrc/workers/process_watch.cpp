// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/process_watch.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

constexpr int kPollMs = 200;

/// Where the system has no process descriptors, or users' code has closed this one, a process that is not the
/// parent is looked up by its number.
bool has_ended(pid_t process, bool parent, int descriptor) {
  pollfd poll{descriptor, POLLIN, 0};
  if (descriptor >= 0 && ::poll(&poll, 1, kPollMs) > 0 && (poll.revents & POLLIN) != 0) return true;
  if (descriptor < 0 || (poll.revents & POLLNVAL) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
  }
  return parent ? ::getppid() != process : ::kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace

void end_with_process(pid_t process, bool parent, std::chrono::milliseconds grace) {
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  // Leaked: its thread ends with the process.
  new WorkerThread("tdi_watch", [process, parent, descriptor, grace] {
    while (!has_ended(process, parent, descriptor)) {
    }
    std::this_thread::sleep_for(grace);
    ::_exit(1);
  });
}

}  // namespace torch_distinput
