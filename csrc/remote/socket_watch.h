// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <sys/epoll.h>

namespace torch_distinput {

/// Waits for many sockets at once (epoll): what a wait costs grows with those that are ready, not with those
/// that are watched. One thread, but for `wake`.
class SocketWatch {
 public:
  /// Throws std::system_error.
  SocketWatch();
  ~SocketWatch();
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  /// Waits for EPOLLIN, EPOLLOUT or both of `socket` from now on, instead of what was awaited of it before.
  void watch(int socket, std::uint32_t events) noexcept;
  /// Waits for nothing of `socket` any more. To be called before it is closed.
  void forget(int socket) noexcept;
  /// Returns sockets that are ready (`data.fd`, `events`), as soon as there are any; none after
  /// `milliseconds`, or after `wake`. They are valid until the next call.
  std::span<const ::epoll_event> wait(int milliseconds) noexcept;
  /// Ends the present wait, or the next one. Any thread.
  void wake() noexcept;

 private:
  int epoll_;
  int woken_;  ///< an eventfd
  std::array<::epoll_event, 64> ready_{};
};

}  // namespace torch_distinput
