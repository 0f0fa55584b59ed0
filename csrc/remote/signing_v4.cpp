// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/signing_v4.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <map>

#include "remote/sha256.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

/// "20260131T235959Z"
std::string iso_time(SigningTime now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
  return {text.data(), size};
}

}  // namespace

std::string canonical_query(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) {
    name = percent_encode(name, /*keep_slashes=*/false);
    value = percent_encode(value, /*keep_slashes=*/false);
  }
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query)
    text.append(text.empty() ? "" : "&").append(name).append("=").append(value);
  return text;
}

void sign_v4(HttpRequest& request, const AwsRequest& what, const AwsKeys& keys, const std::string& region,
             const std::string& service, SigningTime now) {
  const std::string time = iso_time(now);
  const std::string day = time.substr(0, 8);
  const std::string digest = hex_of(bytes_of(sha256(request.body)));
  std::map<std::string, std::string> headers{
      {"host", what.host}, {"x-amz-content-sha256", digest}, {"x-amz-date", time}};
  if (!keys.session_token.empty()) headers["x-amz-security-token"] = keys.session_token;

  std::string names;
  std::string canonical = request.method + "\n" + what.path + "\n" + canonical_query(what.query) + "\n";
  for (const auto& [name, value] : headers) {
    canonical.append(name).append(":").append(value).append("\n");
    names.append(names.empty() ? "" : ";").append(name);
  }
  canonical += "\n" + names + "\n" + digest;

  const std::string scope = day + "/" + region + "/" + service + "/aws4_request";
  const std::string text =
      "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + hex_of(bytes_of(sha256(canonical)));
  const Sha256 of_day = hmac_sha256("AWS4" + keys.secret, day);
  const Sha256 of_region = hmac_sha256(bytes_of(of_day), region);
  const Sha256 of_service = hmac_sha256(bytes_of(of_region), service);
  const Sha256 of_request = hmac_sha256(bytes_of(of_service), "aws4_request");
  const std::string signature = hex_of(bytes_of(hmac_sha256(bytes_of(of_request), text)));

  for (const auto& [name, value] : headers) {
    if (name != "host") request.headers.emplace_back(name, value);
  }
  request.headers.emplace_back("Authorization", "AWS4-HMAC-SHA256 Credential=" + keys.key + "/" + scope +
                                                    ", SignedHeaders=" + names + ", Signature=" + signature);
}

}  // namespace torch_distinput
