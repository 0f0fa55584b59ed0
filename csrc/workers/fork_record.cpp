// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/fork_record.h"

#include <mutex>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

/// Each child holds the writing end of a pipe of its own, which the system closes when the child ends or
/// becomes another program.
class ForkRecord {
 public:
  static ForkRecord& get() {
    static auto* const record = new ForkRecord;
    static const int registered =
        ::pthread_atfork([] { get().prepare(); }, [] { get().in_parent(); }, [] { get().in_child(); });
    static_cast<void>(registered);
    return *record;
  }

  std::uint64_t enter() {
    const std::lock_guard lock(mutex_);
    ++visible_;
    return forks_;
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    --visible_;
    forget_gone();
  }

  bool seen(std::uint64_t first_fork) {
    const std::lock_guard lock(mutex_);
    forget_gone();
    return !children_.empty() && children_.back().fork >= first_fork;
  }

 private:
  struct Child {
    std::uint64_t fork;
    int pipe;  // -1: unknown, so that it counts as alive
  };

  /// Closes the pipes of children that are gone.
  void forget_gone() {
    std::erase_if(children_, [](const Child& child) {
      pollfd poll{child.pipe, 0, 0};
      if (child.pipe < 0 || ::poll(&poll, 1, 0) <= 0 || (poll.revents & (POLLHUP | POLLERR)) == 0)
        return false;
      ::close(child.pipe);
      return true;
    });
  }

  // A program may fork many children, one after the other, before it asks.
  void prepare() {
    mutex_.lock();
    forget_gone();
    if (visible_ > 0 && ::pipe2(pipe_, O_CLOEXEC) != 0) pipe_[0] = pipe_[1] = -1;
  }

  void in_parent() {
    if (visible_ > 0) {
      if (pipe_[1] >= 0) ::close(pipe_[1]);
      children_.push_back({forks_, pipe_[0]});
    }
    ++forks_;
    mutex_.unlock();
  }

  void in_child() {
    for (const Child& child : children_) {
      if (child.pipe >= 0) ::close(child.pipe);
    }
    children_.clear();
    if (visible_ > 0 && pipe_[0] >= 0) ::close(pipe_[0]);
    mutex_.unlock();
  }

  std::mutex mutex_;
  int visible_ = 0;
  std::uint64_t forks_ = 0;
  int pipe_[2] = {-1, -1};  // of the fork that is being made
  std::vector<Child> children_;
};

}  // namespace

VisibleToForks::VisibleToForks() : first_fork_(ForkRecord::get().enter()) {}

VisibleToForks::~VisibleToForks() { ForkRecord::get().leave(); }

bool seen_by_forks(std::uint64_t first_fork) { return ForkRecord::get().seen(first_fork); }

}  // namespace torch_distinput
