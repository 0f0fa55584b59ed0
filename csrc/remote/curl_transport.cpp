// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/curl_transport.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "base/stage.h"
#include "remote/text.h"

namespace torch_distinput {
namespace {

/// Connections that are kept while nothing is asked over them.
constexpr long kKeptConnections = 2L * ConcurrencyLimit::kMost;  // NOLINT(google-runtime-int)
/// An idle connection is used again within so many seconds: servers and balancers drop older ones silently.
constexpr long kIdleSeconds = 5;               // NOLINT(google-runtime-int)
constexpr long kConnectMilliseconds = 10'000;  // NOLINT(google-runtime-int)
/// The buffer of a running request: one for a short answer with its head, more for a long one, so that a
/// connection that is fast brings much at once. Those of several requests fit into a processor's cache.
constexpr std::uint64_t kLeastReceiveBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kMostReceiveBytes = std::uint64_t{512} << 10;
/// A head of more bytes is not one of HTTP.
constexpr std::size_t kMostHeadBytes = std::size_t{256} << 10;
constexpr std::size_t kMostIdle = 64;

/// The file of the authorities that are trusted: as the environment says, else where systems have it; ""
/// leaves it to libcurl.
std::string find_ca_file() {
  for (const char* variable : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"}) {
    if (const char* file = std::getenv(variable); file != nullptr && *file != '\0') return file;
  }
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"}) {
    if (::access(file, R_OK) == 0) return file;
  }
  return {};
}

/// The status of a line such as "HTTP/1.1 206 Partial Content"; 0 for another one.
int status_of(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (!line.starts_with("HTTP/") || space == std::string_view::npos) return 0;
  int status = 0;
  for (const char c : line.substr(space + 1, 3)) {
    if (c < '0' || c > '9') return 0;
    status = 10 * status + (c - '0');
  }
  return status;
}

long receive_bytes(const HttpRequest& request) {  // NOLINT(google-runtime-int): as libcurl takes it
  return static_cast<long>(                       // NOLINT(google-runtime-int)
      std::clamp(request.expected / 8, kLeastReceiveBytes, kMostReceiveBytes));
}

AttemptEnd end_of(int result) {
  switch (result) {
    case curl::kMalformedUrl:
    case curl::kPeerNotVerified:
    case curl::kBadCaFile:
      return AttemptEnd::kFinal;
    case curl::kUnsupportedProtocol:  // also an answer that is not of HTTP
      return AttemptEnd::kLie;
    default:
      return AttemptEnd::kPassing;
  }
}

}  // namespace

struct CurlTransport::Request {
  AttemptId attempt;
  curl::Easy* easy = nullptr;
  curl::List* headers = nullptr;
  std::string body;
  HttpHead head = {};
  std::size_t head_bytes = 0;
  bool told_head = false;
  bool unwanted = false;         ///< the listener said that the rest is not
  bool has_own_options = false;  ///< its handle is of no use to others
  TransportListener* const* listener = nullptr;
  std::array<char, curl::kErrorBytes> problem = {};

  bool tell_head() {
    if (!std::exchange(told_head, true)) unwanted = !(*listener)->on_head(attempt, std::move(head));
    return !unwanted;
  }

  static std::size_t take_header(char* data, std::size_t size, std::size_t count, void* context) {
    auto& request = *static_cast<Request*>(context);
    const std::string_view line = trimmed({data, size * count});
    request.head_bytes += size * count;
    if (request.head_bytes > kMostHeadBytes) return 0;
    if (const int status = status_of(line)) {
      // A new head: that before was of a proxy, or one that asks for patience.
      request.head = HttpHead{.status = status, .url = std::move(request.head.url)};
    } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
      request.head.headers[lower(trimmed(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
    }
    return size * count;
  }

  static std::size_t take_body(char* data, std::size_t size, std::size_t count, void* context) {
    auto& request = *static_cast<Request*>(context);
    if (!request.tell_head()) return 0;
    request.unwanted = !(*request.listener)->on_body(request.attempt, {data, size * count});
    return request.unwanted ? 0 : size * count;
  }
};

CurlTransport::CurlTransport() : curl_(curl_library()), multi_(curl_.multi_init()), ca_file_(find_ca_file()) {
  if (multi_ == nullptr) throw std::bad_alloc();
  const auto set = [&](int option, auto value) { curl_.multi_setopt(multi_, option, value); };
  set(curl::kMaxConnects, kKeptConnections);
  set(curl::kSocketFunction, &CurlTransport::watch_socket);
  set(curl::kSocketData, static_cast<void*>(this));
  set(curl::kTimerFunction, &CurlTransport::set_timer);
  set(curl::kTimerData, static_cast<void*>(this));
}

CurlTransport::~CurlTransport() {
  while (!requests_.empty()) cancel(requests_.begin()->first);
  for (curl::Easy* const easy : idle_) curl_.easy_cleanup(easy);
  curl_.multi_cleanup(multi_);
}

void CurlTransport::start(AttemptId attempt, const HttpRequest& asked, bool fresh) {
  auto request = std::make_unique<Request>();
  request->attempt = attempt;
  request->listener = &listener_;
  request->body = asked.body;
  request->head.url = asked.url;
  curl::Easy* const easy = request->easy = idle_handle();
  const auto set = [&](int option, auto value) { curl_.easy_setopt(easy, option, value); };
  set(curl::kUrl, asked.url.c_str());
  set(curl::kPrivate, static_cast<void*>(request.get()));
  set(curl::kBufferSize, receive_bytes(asked));
  set(curl::kFreshConnect, fresh ? 1L : 0L);
  set(curl::kErrorBuffer, request->problem.data());
  set(curl::kHeaderData, static_cast<void*>(request.get()));
  set(curl::kWriteData, static_cast<void*>(request.get()));
  const auto add_header = [&](const std::string& line) {
    request->headers = curl_.slist_append(request->headers, line.c_str());
  };
  for (const auto& [name, value] : asked.headers) add_header(std::string(name).append(": ").append(value));
  if (asked.method != "GET") {
    request->has_own_options = true;
    set(curl::kPostFields, request->body.c_str());
    set(curl::kPostFieldSize, static_cast<long>(request->body.size()));  // NOLINT(google-runtime-int)
    set(curl::kCustomRequest, asked.method.c_str());
    // Without it, a body of more than 1 MiB waits a second for servers that do not answer "100-continue".
    add_header("Expect:");
  }
  set(curl::kHttpHeader, static_cast<void*>(request->headers));
  curl_.multi_add_handle(multi_, easy);
  requests_.emplace(attempt, std::move(request));
}

void CurlTransport::cancel(AttemptId attempt) {
  const auto found = requests_.find(attempt);
  if (found == requests_.end()) return;
  put_back(std::move(found->second));
  requests_.erase(found);
}

int CurlTransport::set_timer(curl::Multi*, long milliseconds, void* context) {  // NOLINT(google-runtime-int)
  auto& self = *static_cast<CurlTransport*>(context);
  self.timer_ = milliseconds < 0 ? kNoTimer : clock_ns() + milliseconds * kMillisecond;
  return 0;
}

int CurlTransport::watch_socket(curl::Easy*, int socket, int awaited, void* context, void*) {
  SocketWatch& sockets = static_cast<CurlTransport*>(context)->sockets_;
  if (awaited == curl::kPollRemove) {
    sockets.forget(socket);
  } else {
    sockets.watch(socket, ((awaited & curl::kPollIn) != 0 ? EPOLLIN : 0U) |
                              ((awaited & curl::kPollOut) != 0 ? EPOLLOUT : 0U));
  }
  return 0;
}

/// `milliseconds`, or those until libcurl's timer where these are fewer.
int CurlTransport::wait_for_timer(int milliseconds) const {
  if (timer_ == kNoTimer) return milliseconds;
  const Nanos left = std::max<Nanos>(timer_ - clock_ns(), 0);
  return static_cast<int>(std::min<Nanos>(milliseconds, (left + kMillisecond - 1) / kMillisecond));
}

void CurlTransport::run(int milliseconds, TransportListener& listener) {
  listener_ = &listener;
  int running = 0;
  for (const ::epoll_event& event : sockets_.wait(wait_for_timer(milliseconds))) {
    // Of an error alone libcurl is told nothing: then it looks itself, and finds out which.
    const int happened = ((event.events & EPOLLIN) != 0 ? curl::kSelectIn : 0) |
                         ((event.events & EPOLLOUT) != 0 ? curl::kSelectOut : 0);
    curl_.multi_socket_action(multi_, event.data.fd, happened, &running);
  }
  if (timer_ <= clock_ns()) {
    timer_ = kNoTimer;  // libcurl sets it again
    curl_.multi_socket_action(multi_, curl::kSocketTimeout, 0, &running);
  }
  tell_ends(listener);
}

/// A handle with the options that all requests share: there are many, and each costs more than a request's
/// own.
curl::Easy* CurlTransport::idle_handle() {
  if (!idle_.empty()) {
    curl::Easy* const easy = idle_.back();
    idle_.pop_back();
    return easy;
  }
  curl::Easy* const easy = curl_.easy_init();
  if (easy == nullptr) throw std::bad_alloc();
  const auto set = [&](int option, auto value) { curl_.easy_setopt(easy, option, value); };
  set(curl::kProtocols, curl::kHttpAndHttps);
  // Several connections bring more than one with streams in it.
  set(curl::kHttpVersion, curl::kHttp11);
  set(curl::kNoSignal, 1L);
  set(curl::kTcpKeepAlive, 1L);
  set(curl::kPathAsIs, 1L);  // keys may have ".." in them
  set(curl::kSuppressConnectHeaders, 1L);
  set(curl::kConnectTimeoutMs, kConnectMilliseconds);
  set(curl::kMaxAgeConn, kIdleSeconds);
  set(curl::kUserAgent, "torch_distinput");
  if (!ca_file_.empty()) set(curl::kCaInfo, ca_file_.c_str());
  set(curl::kHeaderFunction, &Request::take_header);
  set(curl::kWriteFunction, &Request::take_body);
  return easy;
}

/// The handle is kept without what belongs to the request, unless that changed more of it.
void CurlTransport::put_back(std::unique_ptr<Request> request) {
  curl::Easy* const easy = request->easy;
  curl_.multi_remove_handle(multi_, easy);
  for (const int option :
       {curl::kPrivate, curl::kErrorBuffer, curl::kHeaderData, curl::kWriteData, curl::kHttpHeader})
    curl_.easy_setopt(easy, option, static_cast<void*>(nullptr));
  curl_.slist_free_all(request->headers);
  if (!request->has_own_options && idle_.size() < kMostIdle) {
    idle_.push_back(easy);
  } else {
    curl_.easy_cleanup(easy);
  }
}

void CurlTransport::tell_ends(TransportListener& listener) {
  int left = 0;
  while (const curl::Message* message = curl_.multi_info_read(multi_, &left)) {
    if (message->kind != curl::kMessageDone) continue;
    const int result = message->data.result;
    Request* ended = nullptr;
    curl_.easy_getinfo(message->easy, curl::kInfoPrivate, &ended);
    const AttemptId attempt = ended->attempt;
    std::string problem;
    if (result == curl::kOk) {
      ended->tell_head();
    } else if (!ended->unwanted) {
      problem = ended->problem.front() != '\0' ? ended->problem.data() : curl_.easy_strerror(result);
    }
    cancel(attempt);
    listener.on_end(attempt, problem, end_of(result));
  }
}

}  // namespace torch_distinput
