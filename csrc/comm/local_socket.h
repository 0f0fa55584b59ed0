// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"

namespace torch_distinput {

/// One end of a connection between two processes of one user on one machine, which carries texts. Does not
/// block. One thread at a time.
class LocalConnection {
 public:
  /// Takes a connected socket. Throws std::runtime_error where the other process is another user's.
  explicit LocalConnection(Descriptor socket);
  /// The process that listens at `address`; nullopt: none does. Throws as the constructor.
  static std::optional<LocalConnection> to(const std::string& address);

  LocalConnection(LocalConnection&&) = default;
  LocalConnection& operator=(LocalConnection&&) = default;
  /// Tells the other process that nothing follows, also where a forked child still holds the socket.
  ~LocalConnection();

  /// Queues a text, and sends what can be sent now.
  void send(const std::string& text);
  /// Sends what can be sent now.
  void flush();
  bool has_unsent() const noexcept { return sent_ < unsent_.size(); }
  /// The texts that have arrived. After the last one of a connection that has ended, `ended()` is true.
  std::vector<std::string> receive();
  bool ended() const noexcept { return ended_; }

  /// For `poll`: the socket, and a descriptor that becomes readable when the other process ends; -1 where the
  /// kernel has none. The socket alone does not tell: a forked child of that process may hold it.
  int socket() const noexcept { return socket_.number(); }
  int process() const noexcept { return process_.number(); }
  /// The number of the other process; 0: it is not visible from here.
  int process_number() const noexcept { return process_number_; }
  /// Notes that the other process has ended: what it has sent may still be received.
  void process_ended() noexcept { process_has_ended_ = true; }

 private:
  Descriptor socket_;
  Descriptor process_;
  int process_number_ = 0;
  std::string unsent_;
  std::size_t sent_ = 0;
  std::string received_;
  bool process_has_ended_ = false;
  bool ended_ = false;
};

/// Listens at an address of this machine's network namespace, which the kernel gives to one process and takes
/// back when that ends. One thread at a time.
class LocalListener {
 public:
  /// nullopt: another process has the address, or this one may not have it.
  static std::optional<LocalListener> at(const std::string& address);
  LocalListener(LocalListener&&) = default;
  LocalListener& operator=(LocalListener&&) = default;
  /// Refuses whoever connects from now on, also where a forked child still holds the socket.
  ~LocalListener();

  int socket() const noexcept { return socket_.number(); }
  /// A process of this user that has connected; nullopt: none.
  std::optional<LocalConnection> accept();

 private:
  explicit LocalListener(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

}  // namespace torch_distinput
