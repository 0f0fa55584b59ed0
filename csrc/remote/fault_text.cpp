// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/fault_text.h"

#include <algorithm>
#include <array>

#include "remote/xml_reader.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kMostText = 200;
constexpr std::array<std::string_view, 9> kThrottled{
    "SlowDown",           "Throttling", "ThrottlingException", "TooManyRequests",      "RequestLimitExceeded",
    "ServiceUnavailable", "ServerBusy", "rateLimitExceeded",   "userRateLimitExceeded"};
constexpr std::array<std::string_view, 6> kExpired{"ExpiredToken",         "ExpiredTokenException",
                                                   "TokenRefreshRequired", "RequestTimeTooSkewed",
                                                   "RequestExpired",       "InvalidToken"};

}  // namespace

std::string plain_text(std::string_view text) {
  std::string result(text.substr(0, kMostText));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = ' ';
  }
  return result;
}

std::string request_id(const HttpHead& head) {
  for (const char* name : {"x-amz-request-id", "x-ms-request-id", "x-guploader-uploadid", "x-request-id"}) {
    if (const std::string id = head.header(name); !id.empty()) return plain_text(id);
  }
  return {};
}

bool says_throttled(std::string_view code) {
  return std::find(kThrottled.begin(), kThrottled.end(), code) != kThrottled.end();
}

bool says_expired(std::string_view code) {
  return std::find(kExpired.begin(), kExpired.end(), code) != kExpired.end();
}

ServiceFault xml_fault(const HttpHead& head, std::string_view body) {
  ServiceFault fault;
  const std::string code = xml_value(body, "Code");
  fault.code = plain_text(code);
  fault.message = plain_text(xml_value(body, "Message"));
  fault.request_id = request_id(head);
  fault.is_throttled = says_throttled(code);
  fault.is_expired = says_expired(code);
  return fault;
}

}  // namespace torch_distinput
