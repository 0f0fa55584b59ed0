// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/curl_transport.h"

#include <array>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "remote/text.h"

namespace torch_distinput {
namespace {

/// Connections that are kept while nothing is asked over them.
constexpr long kKeptConnections = 2L * ConcurrencyLimit::kMost;  // NOLINT(google-runtime-int)
/// An idle connection is used again within so many seconds: servers and balancers drop older ones silently.
constexpr long kIdleSeconds = 5;               // NOLINT(google-runtime-int)
constexpr long kConnectMilliseconds = 10'000;  // NOLINT(google-runtime-int)
/// The buffer of a running request. Those of several requests fit into a processor's cache, so that what is
/// copied out of them need not come from memory, and the allocator keeps them.
constexpr long kReceiveBytes = 128L << 10;  // NOLINT(google-runtime-int)
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
  bool unwanted = false;  ///< the listener said that the rest is not
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
  curl_.multi_setopt(multi_, curl::kMaxConnects, kKeptConnections);
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
  set(curl::kProtocols, curl::kHttpAndHttps);
  // Several connections bring more than one with streams in it.
  set(curl::kHttpVersion, curl::kHttp11);
  set(curl::kNoSignal, 1L);
  set(curl::kTcpKeepAlive, 1L);
  set(curl::kPathAsIs, 1L);  // keys may have ".." in them
  set(curl::kSuppressConnectHeaders, 1L);
  set(curl::kConnectTimeoutMs, kConnectMilliseconds);
  set(curl::kMaxAgeConn, kIdleSeconds);
  set(curl::kBufferSize, kReceiveBytes);
  set(curl::kFreshConnect, fresh ? 1L : 0L);
  set(curl::kUserAgent, "torch_distinput");
  if (!ca_file_.empty()) set(curl::kCaInfo, ca_file_.c_str());
  set(curl::kErrorBuffer, request->problem.data());
  set(curl::kHeaderFunction, &Request::take_header);
  set(curl::kHeaderData, static_cast<void*>(request.get()));
  set(curl::kWriteFunction, &Request::take_body);
  set(curl::kWriteData, static_cast<void*>(request.get()));
  if (asked.method != "GET") {
    set(curl::kPostFields, request->body.c_str());
    set(curl::kPostFieldSize, static_cast<long>(request->body.size()));  // NOLINT(google-runtime-int)
    set(curl::kCustomRequest, asked.method.c_str());
  }
  const auto add_header = [&](const std::string& line) {
    request->headers = curl_.slist_append(request->headers, line.c_str());
  };
  for (const auto& [name, value] : asked.headers) add_header(std::string(name).append(": ").append(value));
  // Without it, a body of more than 1 MiB waits a second for servers that do not answer "100-continue".
  if (asked.method != "GET") add_header("Expect:");
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

void CurlTransport::run(int milliseconds, TransportListener& listener) {
  int ready = 0;
  if (milliseconds > 0) curl_.multi_poll(multi_, nullptr, 0, milliseconds, &ready);
  listener_ = &listener;
  int running = 0;
  curl_.multi_perform(multi_, &running);
  tell_ends(listener);
}

void CurlTransport::wake() noexcept { curl_.multi_wakeup(multi_); }

curl::Easy* CurlTransport::idle_handle() {
  if (idle_.empty()) {
    curl::Easy* const made = curl_.easy_init();
    if (made == nullptr) throw std::bad_alloc();
    return made;
  }
  curl::Easy* const easy = idle_.back();
  idle_.pop_back();
  return easy;
}

void CurlTransport::put_back(std::unique_ptr<Request> request) {
  curl_.multi_remove_handle(multi_, request->easy);
  curl_.slist_free_all(request->headers);
  if (idle_.size() < kMostIdle) {
    curl_.easy_reset(request->easy);
    idle_.push_back(request->easy);
  } else {
    curl_.easy_cleanup(request->easy);
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
