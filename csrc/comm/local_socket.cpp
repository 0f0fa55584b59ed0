// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/local_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

constexpr int kBacklog = 4096;

/// Before each text: its length.
constexpr std::size_t kHeader = 8;

std::string header_of(const std::string& text) {
  const std::uint64_t size = text.size();
  std::string header(kHeader, '\0');
  std::memcpy(header.data(), &size, kHeader);
  return header;
}

/// `address` in Linux's abstract namespace, which has no files.
struct Address {
  explicit Address(const std::string& address) {
    name.sun_family = AF_UNIX;
    const std::size_t length = std::min(address.size(), sizeof name.sun_path - 1);
    std::memcpy(name.sun_path + 1, address.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }

  sockaddr_un name{};
  socklen_t size = 0;
};

Descriptor new_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

Descriptor descriptor_of(int process) {
  if (process <= 0 || process == ::getpid()) return Descriptor();  // a process does not outlive itself
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

}  // namespace

LocalConnection::LocalConnection(Descriptor socket) : socket_(std::move(socket)) {
  ucred other{};
  socklen_t size = sizeof other;
  if (::getsockopt(socket_.number(), SOL_SOCKET, SO_PEERCRED, &other, &size) != 0 || other.uid != ::getuid())
    throw std::runtime_error("a process of another user");
  process_number_ = other.pid;
  errno = 0;
  process_ = descriptor_of(other.pid);
  process_has_ended_ = !process_.open() && errno == ESRCH;
}

LocalConnection::~LocalConnection() {
  if (socket_.open()) ::shutdown(socket_.number(), SHUT_RDWR);
}

std::optional<LocalConnection> LocalConnection::to(const std::string& address) {
  Descriptor socket = new_socket();
  const Address there(address);
  if (!socket.open() || ::connect(socket.number(), there.get(), there.size) != 0) return std::nullopt;
  LocalConnection connection(std::move(socket));
  // A forked child of a process that has ended may hold its socket: nobody would answer.
  if (connection.process_has_ended_) return std::nullopt;
  return connection;
}

void LocalConnection::send(const std::string& text) {
  unsent_ += header_of(text);
  unsent_ += text;
  flush();
}

void LocalConnection::flush() {
  while (has_unsent() && !ended_) {
    const ssize_t sent =
        ::send(socket_.number(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      ended_ = ended_ || (errno != EAGAIN && errno != EWOULDBLOCK);
      return;
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  unsent_.clear();
  sent_ = 0;
}

std::vector<std::string> LocalConnection::receive() {
  std::array<char, 1 << 16> piece;
  while (true) {
    const ssize_t read = ::recv(socket_.number(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      ended_ = ended_ || process_has_ended_;
      break;
    }
    if (read <= 0) {
      ended_ = true;
      break;
    }
    received_.append(piece.data(), static_cast<std::size_t>(read));
  }
  std::vector<std::string> texts;
  std::size_t at = 0;
  while (received_.size() - at >= kHeader) {
    std::uint64_t size = 0;
    std::memcpy(&size, received_.data() + at, kHeader);
    if (received_.size() - at - kHeader < size) break;
    texts.push_back(received_.substr(at + kHeader, size));
    at += kHeader + size;
  }
  received_.erase(0, at);
  return texts;
}

LocalListener::~LocalListener() {
  if (socket_.open()) ::shutdown(socket_.number(), SHUT_RDWR);
}

std::optional<LocalListener> LocalListener::at(const std::string& address) {
  Descriptor socket = new_socket();
  const Address here(address);
  if (!socket.open() || ::bind(socket.number(), here.get(), here.size) != 0 ||
      ::listen(socket.number(), kBacklog) != 0)
    return std::nullopt;
  return LocalListener(std::move(socket));
}

std::optional<LocalConnection> LocalListener::accept() {
  Descriptor socket(::accept4(socket_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.open()) return std::nullopt;
  try {
    return LocalConnection(std::move(socket));
  } catch (const std::runtime_error&) {
    return accept();  // of another user: dropped
  }
}

}  // namespace torch_distinput
