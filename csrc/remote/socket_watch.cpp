// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/socket_watch.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

namespace torch_distinput {

SocketWatch::SocketWatch()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), woken_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const int problem = errno;
  if (epoll_ >= 0 && woken_ >= 0) {
    watch(woken_, EPOLLIN);
    return;
  }
  if (epoll_ >= 0) ::close(epoll_);
  if (woken_ >= 0) ::close(woken_);
  throw std::system_error(problem, std::generic_category(), "epoll and eventfd");
}

SocketWatch::~SocketWatch() {
  ::close(woken_);
  ::close(epoll_);
}

void SocketWatch::watch(int socket, std::uint32_t events) noexcept {
  ::epoll_event event{};
  event.events = events;
  event.data.fd = socket;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) != 0 && errno == EEXIST)
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &event);
}

void SocketWatch::forget(int socket) noexcept { ::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr); }

std::span<const ::epoll_event> SocketWatch::wait(int milliseconds) noexcept {
  const int found = ::epoll_wait(epoll_, ready_.data(), static_cast<int>(ready_.size()), milliseconds);
  auto* const end = ready_.data() + std::max(found, 0);
  auto* const sockets_end =
      std::remove_if(ready_.data(), end, [&](const ::epoll_event& event) { return event.data.fd == woken_; });
  if (sockets_end != end) {
    std::uint64_t times = 0;
    [[maybe_unused]] const ::ssize_t size = ::read(woken_, &times, sizeof(times));
  }
  return {ready_.data(), sockets_end};
}

void SocketWatch::wake() noexcept {
  const std::uint64_t once = 1;
  [[maybe_unused]] const ::ssize_t size = ::write(woken_, &once, sizeof(once));
}

}  // namespace torch_distinput
