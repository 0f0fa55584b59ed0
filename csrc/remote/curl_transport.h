// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "remote/curl_library.h"
#include "remote/fetch_schedule.h"
#include "remote/http.h"
#include "remote/socket_watch.h"

namespace torch_distinput {

/// What the end of an attempt says of the next one.
enum class AttemptEnd {
  kPassing,  ///< another one may do better
  kLie,      ///< it may, but no server should answer so
  kFinal,    ///< it will not (a certificate that cannot be trusted)
};

/// What hears of attempts. Called inside of `CurlTransport::run`, where it must not start or cancel any.
class TransportListener {
 public:
  virtual ~TransportListener() = default;
  /// The head of a response is whole: a body follows, or none. False: the rest is not wanted.
  virtual bool on_head(AttemptId attempt, HttpHead head) = 0;
  /// The next bytes of its body. False: the rest is not wanted.
  virtual bool on_body(AttemptId attempt, std::span<const char> bytes) = 0;
  /// The attempt is over. `problem`: why it failed; "" where the response came to its end.
  virtual void on_end(AttemptId attempt, const std::string& problem, AttemptEnd end) = 0;
};

/// Carries out HTTP requests side by side with libcurl, over connections that it keeps. One thread, but for
/// `wake`.
class CurlTransport {
 public:
  /// Throws std::runtime_error where there is no libcurl.
  CurlTransport();
  /// Ends all requests.
  ~CurlTransport();
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;

  /// Begins a request. `fresh`: over a new connection.
  void start(AttemptId attempt, const HttpRequest& request, bool fresh);
  /// Ends a request; the listener does not hear of it again.
  void cancel(AttemptId attempt);
  /// Sends and receives what can be without waiting, and tells `listener`; before that waits until there is
  /// something, `wake` is called, or `milliseconds` have passed.
  void run(int milliseconds, TransportListener& listener);
  /// Ends the wait of `run`. Any thread.
  void wake() noexcept { sockets_.wake(); }

 private:
  struct Request;
  static constexpr Nanos kNoTimer = std::numeric_limits<Nanos>::max();

  static int set_timer(curl::Multi*, long milliseconds, void* context);  // NOLINT(google-runtime-int)
  static int watch_socket(curl::Easy*, int socket, int awaited, void* context, void*);
  int wait_for_timer(int milliseconds) const;
  curl::Easy* idle_handle();
  void put_back(std::unique_ptr<Request> request);
  void tell_ends(TransportListener& listener);

  const curl::Functions& curl_;
  SocketWatch sockets_;
  Nanos timer_ = kNoTimer;  ///< when libcurl wants to be called, whatever happens to sockets
  curl::Multi* multi_;
  std::string ca_file_;
  TransportListener* listener_ = nullptr;  ///< of the present or last `run`
  std::vector<curl::Easy*> idle_;
  std::unordered_map<AttemptId, std::unique_ptr<Request>> requests_;
};

}  // namespace torch_distinput
