// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// The limit of `benchmarks/python/remote.py`: ranges of one object, received over a few connections into warm
// memory by one thread. No library of HTTP, no second copy, no hand-over.

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

/// What is needed of OpenSSL 3 or 1.1, whose headers need not be there.
struct Tls {
  Tls() {
    for (const char* name : {"libssl.so.3", "libssl.so.1.1"}) {
      library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) break;
    }
    if (library == nullptr) throw std::runtime_error("there is no libssl");
    find(method, "TLS_client_method");
    find(make_context, "SSL_CTX_new");
    find(make, "SSL_new");
    find(set_socket, "SSL_set_fd");
    find(connect, "SSL_connect");
    find(read, "SSL_read");
    find(write, "SSL_write");
    find(free, "SSL_free");
    context = make_context(method());
  }

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(name);
  }

  void* library = nullptr;
  const void* (*method)();
  void* (*make_context)(const void*);
  void* (*make)(void*);
  int (*set_socket)(void*, int);
  int (*connect)(void*);
  int (*read)(void*, void*, int);
  int (*write)(void*, const void*, int);
  void (*free)(void*);
  void* context = nullptr;
};

Tls& tls() {
  static Tls library;
  return library;
}

void check(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// A connection, and the answer that it receives: head and body one after the other in `memory`.
class Connection {
 public:
  Connection(const ::sockaddr_in& address, bool is_tls, std::size_t room)
      : memory_(room, '\1'), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    check(::connect(socket_, reinterpret_cast<const ::sockaddr*>(&address), sizeof(address)) == 0, "connect");
    if (is_tls) {
      tls_ = tls().make(tls().context);
      check(tls().set_socket(tls_, socket_) == 1 && tls().connect(tls_) == 1, "TLS");
    }
    ::fcntl(socket_, F_SETFL, O_NONBLOCK);
  }
  ~Connection() {
    if (tls_ != nullptr) tls().free(tls_);
    ::close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_; }

  void ask(const std::string& path, std::int64_t offset, std::int64_t size) {
    std::string text = "GET " + path +
                       " HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=" + std::to_string(offset) + "-" +
                       std::to_string(offset + size - 1) + "\r\n\r\n";
    const auto length = static_cast<int>(text.size());
    const auto sent = tls_ != nullptr ? tls().write(tls_, text.data(), length)
                                      : static_cast<int>(::send(socket_, text.data(), text.size(), 0));
    check(sent == length, "send");
    filled_ = head_ = 0;
    body_ = static_cast<std::size_t>(size);
  }

  /// Receives what is there. Returns whether the answer is whole.
  bool receive() {
    while (head_ == 0 || filled_ < head_ + body_) {
      const std::size_t room = memory_.size() - filled_;
      const auto count = tls_ != nullptr
                             ? tls().read(tls_, memory_.data() + filled_, static_cast<int>(room))
                             : static_cast<int>(::recv(socket_, memory_.data() + filled_, room, 0));
      if (count <= 0) {
        check(errno == EAGAIN && count < 0, "the connection ended");
        return false;
      }
      filled_ += static_cast<std::size_t>(count);
      if (head_ == 0) find_head();
    }
    return true;
  }

 private:
  void find_head() {
    const std::string_view text(memory_.data(), filled_);
    const std::size_t end = text.find("\r\n\r\n");
    if (end == std::string_view::npos) return;
    check(text.starts_with("HTTP/1.1 206"), "the answer has no range");
    head_ = end + 4;
  }

  std::vector<char> memory_;
  int socket_;
  void* tls_ = nullptr;
  std::size_t filled_ = 0;
  std::size_t head_ = 0;  ///< bytes of the head; 0: it is not whole
  std::size_t body_ = 0;
};

double seconds(::clockid_t clock) {
  ::timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Cost {
  double wall;
  double cpu;
};

Cost receive_all(int port, const std::string& path, bool is_tls, std::int64_t begin, std::int64_t range,
                 std::int64_t count, int connections) {
  ::sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<std::unique_ptr<Connection>> all;
  const int ready = ::epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; i < connections; ++i) {
    all.push_back(
        std::make_unique<Connection>(address, is_tls, static_cast<std::size_t>(range) + (64 << 10)));
    ::epoll_event event{.events = EPOLLIN, .data = {.ptr = all.back().get()}};
    ::epoll_ctl(ready, EPOLL_CTL_ADD, all.back()->socket(), &event);
  }
  const double wall = seconds(CLOCK_MONOTONIC);
  const double cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
  std::int64_t asked = 0;
  std::int64_t done = 0;
  const auto ask = [&](Connection& connection) {
    if (asked < count) connection.ask(path, begin + range * asked++, range);
  };
  for (const auto& connection : all) ask(*connection);
  while (done < count) {
    ::epoll_event events[64];
    const int found = ::epoll_wait(ready, events, 64, 10'000);
    check(found > 0, "no byte came for 10 s");
    for (int i = 0; i < found; ++i) {
      auto& connection = *static_cast<Connection*>(events[i].data.ptr);
      if (!connection.receive()) continue;
      ++done;
      ask(connection);
    }
  }
  ::close(ready);
  return {seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_THREAD_CPUTIME_ID) - cpu};
}

}  // namespace

/// Receives `count` ranges of `range` bytes of the object `path`, from byte `begin` on, at a port of this
/// machine. The clock starts when all connections are there. Wall time below 0: it failed, as standard error
/// says.
extern "C" Cost receive_ranges(int port, const char* path, int is_tls, std::int64_t begin, std::int64_t range,
                               std::int64_t count, int connections) {
  try {
    return receive_all(port, path, is_tls != 0, begin, range, count, connections);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "receive: %s\n", error.what());
    return {-1, 0};
  }
}
