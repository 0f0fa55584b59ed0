// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "remote/object_store.h"

namespace torch_distinput {

// One maker for each kind of store; `make_store` chooses. Their contract is that of `make_store`.

ObjectStorePtr make_http_store(const std::string& url, const StorageOptions& options,
                               CredentialCallback callback);
ObjectStorePtr make_s3_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback);

/// The value of an option; "" where it is not given.
std::string option(const StorageOptions& options, const std::string& name);
/// Throws std::invalid_argument naming an option that is not in `known` (a name that ends in "." stands for
/// all that begin with it).
void check_options(const StorageOptions& options, std::string_view store,
                   std::initializer_list<std::string_view> known);
/// "bytes=5-9"
std::string range_header(ByteRange range);
/// A strong ETag as it came; "" for a weak one.
std::string strong_etag(const HttpHead& head);

}  // namespace torch_distinput
