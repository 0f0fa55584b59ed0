// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "remote/http.h"
#include "remote/object_store.h"

namespace torch_distinput {

/// What is signed of a request to Azure, besides its headers.
struct AzureRequest {
  std::string account;
  std::string path;                                             ///< encoded, as it is sent
  std::vector<std::pair<std::string, std::string>> query = {};  ///< not encoded; names in lower case
};

/// "Wed, 01 Jul 2026 00:00:00 GMT"
std::string http_date(SigningTime time);

/// The text whose signature lets a request pass:
/// learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key, of version 2015-02-21 and later.
/// REQUIRES: `request` has the header x-ms-date, and one Content-Type if it has a body.
std::string shared_key_text(const HttpRequest& request, const AzureRequest& what);

/// Adds the header Authorization. `key` is the account's, not in base64.
void sign_shared_key(HttpRequest& request, const AzureRequest& what, const std::string& key);

}  // namespace torch_distinput
