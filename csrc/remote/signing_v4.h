// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "remote/http.h"
#include "remote/object_store.h"

namespace torch_distinput {

/// Who asks.
struct AwsKeys {
  std::string key;
  std::string secret;
  std::string session_token = {};  ///< "": permanent keys
};

/// What is signed of a request.
struct AwsRequest {
  std::string host;  ///< with its port, unless that is the usual one
  std::string path;  ///< encoded, begins with "/"
  std::vector<std::pair<std::string, std::string>> query = {};  ///< not encoded
};

/// "a=b&c=d", encoded and sorted as Signature Version 4 has it.
std::string canonical_query(std::vector<std::pair<std::string, std::string>> query);

/// Adds the headers of AWS Signature Version 4 to `request`, whose method and body it signs:
/// docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html. libcurl's own signature is wrong
/// for queries and for some keys (curl issues 11794, 13754, 16927).
void sign_v4(HttpRequest& request, const AwsRequest& what, const AwsKeys& keys, const std::string& region,
             const std::string& service, SigningTime now);

}  // namespace torch_distinput
