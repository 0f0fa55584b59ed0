// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// The network of `benchmarks/python/remote.py`: a TCP relay to a port of this machine that adds latency and
// limits bandwidth, by one thread. `relay PORT` prints its own port. A line of standard input, "latency
// bandwidth total_bandwidth", shapes what comes from then on, and is answered by the number of bytes that the
// server has sent so far; its end ends the relay.
//
// What is on its way lies in a pipe for each direction of a connection. Bytes go in and out by splice, which
// does not copy them: a relay that copies would take a core that client and server need.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using Nanos = std::int64_t;
constexpr double kSecond = 1e9;
/// Time for which a line's rate may be made up for.
constexpr Nanos kBurst = 5'000'000;
/// Bytes that pass at a time: as many as there are, or, where a rate is kept, few.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;
constexpr std::size_t kMostShaped = std::size_t{32} << 10;
/// Bytes on their way in one direction of a connection.
constexpr int kPipe = 4 << 20;
constexpr int kPipeOfUsers = 1 << 20;  // without privileges

Nanos clock_ns() {
  ::timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanos>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void check(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

struct Shape {
  Nanos latency = 0;
  double bandwidth = 0;        ///< bytes a second of a connection in each direction; 0: any
  double total_bandwidth = 0;  ///< of all connections together
};

/// A rate of bytes, as the time at which the next one may pass.
class Line {
 public:
  Nanos pass_at(Nanos now, std::size_t size, double rate) {
    if (rate == 0) return now;
    free_ = std::max(free_, now - kBurst) + static_cast<Nanos>(static_cast<double>(size) * kSecond / rate);
    return std::max(free_, now);
  }

 private:
  Nanos free_ = 0;
};

/// One direction of a connection. Chunks in the pipe are due at a time; an empty one is the end of the
/// stream.
struct Flow {
  struct Chunk {
    Nanos due;
    std::size_t size;
  };

  Flow(int source, int destination) : from(source), to(destination) {
    check(::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) == 0, "pipe");
    if (::fcntl(pipe[1], F_SETPIPE_SZ, kPipe) < 0) ::fcntl(pipe[1], F_SETPIPE_SZ, kPipeOfUsers);
  }
  ~Flow() {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  int from;
  int to;
  int pipe[2];
  std::deque<Chunk> chunks = {};
  Line line = {};
  Nanos last_due = 0;
  bool open = true;        ///< more may come
  bool pipe_full = false;  ///< nothing is received until something was sent
  bool peer_full = false;  ///< nothing is sent until the destination has room
  bool ended = false;      ///< its end was sent on
};

struct Connection {
  Connection(std::uint64_t number, int client, int server)
      : id(number), up(client, server), down(server, client) {}
  ~Connection() {
    ::close(up.from);
    ::close(up.to);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::uint64_t id;
  Flow up;
  Flow down;
  std::uint32_t awaited[2] = {EPOLLIN, EPOLLIN};  ///< of the client's socket, and of the server's
};

class Relay {
 public:
  explicit Relay(int port) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    target_.sin_family = AF_INET;
    target_.sin_port = htons(static_cast<std::uint16_t>(port));
    target_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::sockaddr_in own = target_;
    own.sin_port = 0;
    ::socklen_t size = sizeof(own);
    check(::bind(listener_, reinterpret_cast<::sockaddr*>(&own), size) == 0 && ::listen(listener_, 512) == 0,
          "listen");
    ::getsockname(listener_, reinterpret_cast<::sockaddr*>(&own), &size);
    std::printf("%d\n", ntohs(own.sin_port));
    std::fflush(stdout);
    add(listener_, kListener);
    add(STDIN_FILENO, kInput);
  }

  /// Until standard input ends.
  void run() {
    for (bool goes_on = true; goes_on;) {
      ::epoll_event events[64];
      const int found = wait(events, 64);
      check(found >= 0 || errno == EINTR, "epoll");
      for (int i = 0; i < found; ++i) {
        const std::uint64_t name = events[i].data.u64;
        if (name == kListener) {
          accept();
        } else if (name == kInput) {
          goes_on = obey();
        } else if (const auto at = connections_.find(name / 2); at != connections_.end()) {
          keep_if(handle(*at->second, name % 2 == 0, events[i].events), at->second->id);
        }
      }
      send_due();
    }
  }

 private:
  static constexpr std::uint64_t kListener = 0;
  static constexpr std::uint64_t kInput = 1;  // connections are counted from 1, and have two names each
  struct Due {
    Nanos time;
    std::uint64_t connection;
    bool operator>(const Due& other) const { return time > other.time; }
  };

  int wait(::epoll_event* events, int most) {
    const Nanos left = due_.empty() ? 60'000'000'000 : std::max<Nanos>(due_.top().time - clock_ns(), 0);
    const ::timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
    return ::epoll_pwait2(epoll_, events, most, &timeout, nullptr);
  }

  void add(int descriptor, std::uint64_t name) {
    ::epoll_event event{.events = EPOLLIN, .data = {.u64 = name}};
    check(::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0, "epoll");
  }

  bool obey() {
    char line[256];
    const ::ssize_t size = ::read(STDIN_FILENO, line, sizeof(line) - 1);
    if (size <= 0) return false;
    line[size] = '\0';
    double latency = 0;
    check(std::sscanf(line, "%lf %lf %lf", &latency, &shape_.bandwidth, &shape_.total_bandwidth) == 3, line);
    shape_.latency = static_cast<Nanos>(latency * kSecond);
    std::printf("%llu\n", static_cast<unsigned long long>(bytes_down_));
    std::fflush(stdout);
    return true;
  }

  void accept() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(server, reinterpret_cast<const ::sockaddr*>(&target_), sizeof(target_)) != 0) {
      ::close(client);
      ::close(server);
      return;
    }
    for (const int end : {client, server}) {
      const int on = 1;
      ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      ::fcntl(end, F_SETFL, O_NONBLOCK);
    }
    const std::uint64_t id = ++accepted_;
    connections_.emplace(id, std::make_unique<Connection>(id, client, server));
    add(client, 2 * id);
    add(server, 2 * id + 1);
  }

  /// Something happened to the socket of the client, or of the server. Returns whether the connection
  /// remains.
  bool handle(Connection& connection, bool is_client, std::uint32_t events) {
    Flow& outward = is_client ? connection.up : connection.down;
    Flow& inward = is_client ? connection.down : connection.up;
    if ((events & EPOLLERR) != 0 || ((events & EPOLLHUP) != 0 && !outward.open)) return false;
    if ((events & EPOLLOUT) != 0) {
      inward.peer_full = false;
      if (!send(inward)) return false;
    }
    if ((events & (EPOLLIN | EPOLLHUP)) != 0 && !receive(connection.id, outward, is_client)) return false;
    return true;
  }

  void keep_if(bool remains, std::uint64_t id) {
    const auto found = connections_.find(id);
    Connection& connection = *found->second;
    if (!remains || (connection.up.ended && connection.down.ended)) {
      connections_.erase(found);
      return;
    }
    await(connection, 0, connection.up, connection.down);
    await(connection, 1, connection.down, connection.up);
  }

  /// Waits for what its two flows need of a socket.
  void await(Connection& connection, std::uint64_t side, const Flow& outward, const Flow& inward) {
    const std::uint32_t wanted = (outward.open && !outward.pipe_full ? std::uint32_t{EPOLLIN} : 0U) |
                                 (inward.peer_full ? std::uint32_t{EPOLLOUT} : 0U);
    if (std::exchange(connection.awaited[side], wanted) == wanted) return;
    ::epoll_event event{.events = wanted, .data = {.u64 = 2 * connection.id + side}};
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, outward.from, &event);
  }

  bool receive(std::uint64_t id, Flow& flow, bool is_up) {
    const bool has_rate = shape_.bandwidth != 0 || shape_.total_bandwidth != 0;
    const ::ssize_t size = ::splice(flow.from, nullptr, flow.pipe[1], nullptr,
                                    has_rate ? kMostShaped : kMostAtOnce, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (size < 0) {
      flow.pipe_full = errno == EAGAIN && !flow.chunks.empty();
      return errno == EAGAIN;
    }
    const Nanos now = clock_ns();
    const auto bytes = static_cast<std::size_t>(size);
    if (!is_up) bytes_down_ += bytes;
    const Nanos own = flow.line.pass_at(now, bytes, shape_.bandwidth);
    const Nanos all = (is_up ? all_up_ : all_down_).pass_at(now, bytes, shape_.total_bandwidth);
    flow.last_due = std::max(flow.last_due, std::max(own, all) + shape_.latency);
    flow.chunks.push_back({flow.last_due, bytes});
    due_.push({flow.last_due, id});
    flow.open = size > 0;
    return true;
  }

  void send_due() {
    const Nanos now = clock_ns();
    while (!due_.empty() && due_.top().time <= now) {
      const auto found = connections_.find(due_.top().connection);
      due_.pop();
      if (found == connections_.end()) continue;
      Connection& connection = *found->second;
      keep_if(send(connection.up) && send(connection.down), connection.id);
    }
  }

  /// Sends what is due, as far as there is room. Returns false where the connection has broken.
  static bool send(Flow& flow) {
    const Nanos now = clock_ns();
    while (!flow.peer_full && !flow.chunks.empty() && flow.chunks.front().due <= now) {
      Flow::Chunk& chunk = flow.chunks.front();
      if (chunk.size == 0) {
        ::shutdown(flow.to, SHUT_WR);
        flow.ended = true;
      } else {
        const ::ssize_t size =
            ::splice(flow.pipe[0], nullptr, flow.to, nullptr, chunk.size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (size < 0 && errno != EAGAIN) return false;
        flow.peer_full = size < 0;
        if (size < 0) break;
        flow.pipe_full = false;
        chunk.size -= static_cast<std::size_t>(size);
        if (chunk.size > 0) continue;
      }
      flow.chunks.pop_front();
    }
    return true;
  }

  int epoll_;
  int listener_;
  ::sockaddr_in target_{};
  Shape shape_;
  Line all_up_;
  Line all_down_;
  std::uint64_t accepted_ = 0;
  std::uint64_t bytes_down_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace

int main(int count, char** arguments) {
  try {
    check(count == 2, "usage: relay PORT");
    ::signal(SIGPIPE, SIG_IGN);
    Relay(std::atoi(arguments[1])).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "relay: %s\n", error.what());
    return 1;
  }
}
