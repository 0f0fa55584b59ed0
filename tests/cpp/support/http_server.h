// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "remote/http.h"

/// A real HTTP server of this machine, which serves one object and fails as told.
namespace torch_distinput::http_testing {

/// A request as the server saw it.
struct Asked {
  int number = 0;    ///< 1 is the first one of all
  std::string path;  ///< with its query
  std::string head;  ///< all of it
  ByteRange range;   ///< of size 0 where none is asked for
};

/// What the server sends.
struct Reply {
  enum class End {
    kKeep,       ///< the connection stays open
    kClose,      ///< it is closed
    kReset,      ///< it is closed as where a machine fails
    kHalfClose,  ///< the server sends no more, but leaves when the client does
    kHang,       ///< nothing more comes until the client leaves
  };
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::size_t sent = std::string::npos;  ///< so many bytes of the body are sent
  End end = End::kKeep;
  std::string raw = {};                ///< unless empty: sent instead of all that
  double rate = 0;                     ///< bytes a second of the body; 0: at once
  std::chrono::milliseconds delay{0};  ///< before all that
};

/// An answer without a body.
inline Reply status(int number, std::vector<std::pair<std::string, std::string>> headers = {}) {
  return {.status = number, .headers = std::move(headers)};
}

class HttpServer {
 public:
  /// Changes an answer that is right. Called by several threads.
  using Script = std::function<Reply(const Asked& asked, Reply right)>;
  static constexpr const char* kTag = "\"v1\"";

  explicit HttpServer(
      std::string object, Script script = [](const Asked&, Reply right) { return right; })
      : object_(std::move(object)), script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 256) != 0 ||
        ::getsockname(listener_, generic, &size) != 0)
      std::abort();
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~HttpServer() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
    }
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    wait_until_left();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string origin() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string url(const std::string& path = "/object") const { return origin() + path; }
  const std::string& object() const { return object_; }
  int requests() const { return requests_; }
  /// The requests that came, in their order.
  std::vector<Asked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  /// Waits until no connection is open.
  void wait_until_left() {
    std::unique_lock lock(mutex_);
    if (!left_.wait_for(lock, std::chrono::seconds(20), [this] { return connections_.empty(); }))
      std::abort();
  }

 private:
  static constexpr std::size_t kMostConnections = 128;
  static constexpr std::size_t kMostHead = std::size_t{64} << 10;

  void accept_all() {
    while (true) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard lock(mutex_);
      if (closing_ || connection < 0 || connections_.size() == kMostConnections) {
        if (connection >= 0) ::close(connection);
        if (closing_ || connection < 0) return;
        continue;
      }
      connections_.insert(connection);
      std::thread([this, connection] {
        serve(connection);
        const std::lock_guard left(mutex_);
        ::close(connection);
        connections_.erase(connection);
        left_.notify_all();
      }).detach();
    }
  }

  void serve(int connection) {
    std::string buffer;
    while (true) {
      std::size_t end = 0;
      while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
        if (buffer.size() > kMostHead || !receive(connection, buffer)) return;
      }
      Asked asked = parse(buffer.substr(0, end + 2));
      buffer.erase(0, end + 4);
      {
        const std::lock_guard lock(mutex_);
        asked.number = ++requests_;
        asked_.push_back(asked);
      }
      if (!answer(connection, script_(asked, right(asked)))) return;
    }
  }

  static bool receive(int connection, std::string& buffer) {
    char bytes[4096];
    const ssize_t got = ::recv(connection, bytes, sizeof(bytes), 0);
    if (got > 0) buffer.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }

  static Asked parse(std::string head) {
    Asked asked;
    const std::size_t path = head.find(' ') + 1;
    asked.path = head.substr(path, head.find(' ', path) - path);
    if (const std::size_t range = head.find("\r\nRange: bytes="); range != std::string::npos) {
      const char* const begin = head.data() + range + 15;
      std::uint64_t last = 0;
      const auto first = std::from_chars(begin, head.data() + head.size(), asked.range.offset);
      std::from_chars(first.ptr + 1, head.data() + head.size(), last);
      asked.range.size = last - asked.range.offset + 1;
    }
    asked.head = std::move(head);
    return asked;
  }

  Reply right(const Asked& asked) const {
    const std::string size = std::to_string(object_.size());
    if (asked.range.size == 0) return {.headers = {{"ETag", kTag}}, .body = object_};
    if (asked.range.offset >= object_.size()) return status(416, {{"Content-Range", "bytes */" + size}});
    const std::uint64_t end = std::min<std::uint64_t>(asked.range.end(), object_.size());
    return {.status = 206,
            .headers = {{"ETag", kTag},
                        {"Content-Range", "bytes " + std::to_string(asked.range.offset) + "-" +
                                              std::to_string(end - 1) + "/" + size}},
            .body = object_.substr(asked.range.offset, end - asked.range.offset)};
  }

  /// Returns whether the connection stays open.
  static bool answer(int connection, const Reply& reply) {
    std::this_thread::sleep_for(reply.delay);
    std::string text = reply.raw;
    std::size_t at_once = std::string::npos;
    if (text.empty()) {
      text = "HTTP/1.1 " + std::to_string(reply.status) +
             " Status\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n";
      for (const auto& [name, value] : reply.headers)
        text.append(name).append(": ").append(value).append("\r\n");
      text.append("\r\n");
      if (reply.rate > 0) at_once = text.size();
      text.append(reply.body, 0, reply.sent);
    }
    for (std::size_t sent = 0; sent < text.size();) {
      const bool trickles = sent >= at_once;
      if (trickles) std::this_thread::sleep_for(std::chrono::duration<double>(1 / reply.rate));
      const std::size_t most = trickles ? 1 : std::min(at_once, text.size()) - sent;
      const ssize_t more = ::send(connection, text.data() + sent, most, MSG_NOSIGNAL);
      if (more <= 0) return false;
      sent += static_cast<std::size_t>(more);
    }
    if (reply.end == Reply::End::kHalfClose) ::shutdown(connection, SHUT_WR);
    if (reply.end == Reply::End::kHang || reply.end == Reply::End::kHalfClose) {
      std::string ignored;
      while (receive(connection, ignored)) {
      }
    } else if (reply.end == Reply::End::kReset) {
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    return reply.end == Reply::End::kKeep;
  }

  const std::string object_;
  const Script script_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> requests_{0};
  mutable std::mutex mutex_;
  std::condition_variable left_;
  bool closing_ = false;
  std::set<int> connections_;
  std::vector<Asked> asked_;
  std::thread acceptor_;
};

}  // namespace torch_distinput::http_testing
