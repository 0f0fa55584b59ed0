// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "remote/credentials.h"
#include "remote/object_store.h"

namespace torch_distinput {

// One maker for each kind of store; `make_store` chooses. Their contract is that of `make_store`.

ObjectStorePtr make_http_store(const std::string& url, const StorageOptions& options,
                               CredentialCallback callback);
ObjectStorePtr make_s3_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback);

/// A server that speaks S3's language.
struct S3Server {
  std::string scheme;         ///< of the URLs that users write
  std::string region = {};    ///< that requests are signed for
  std::string endpoint = {};  ///< an http or https URL
  bool by_path = true;        ///< the bucket is the first part of the path, rather than of the host
};
/// `find` and `callback` tell "key", "secret" and "session_token".
ObjectStorePtr make_s3_store(const std::string& url, const S3Server& server, Credentials::Find find,
                             CredentialCallback callback);
ObjectStorePtr make_gs_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback);
ObjectStorePtr make_az_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback);
ObjectStorePtr make_hf_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback);

/// The first that is not empty; "" where all are.
std::string first_of(std::initializer_list<std::string> values);
/// The value of an option; "" where it is not given.
std::string option(const StorageOptions& options, const std::string& name);
/// Throws std::invalid_argument naming an option that is not in `known` (a name that ends in "." stands for
/// all that begin with it).
void check_options(const StorageOptions& options, std::string_view store,
                   std::initializer_list<std::string_view> known);
/// Throws std::invalid_argument where only one of "key" and "secret" is given.
void check_keys(const StorageOptions& options);
/// The name of the object at `url` in its bucket. Throws std::invalid_argument where it is of another scheme
/// or bucket.
std::string name_in_bucket(const std::string& url, std::string_view scheme, std::string_view bucket);
/// "bytes=5-9"
std::string range_header(ByteRange range);
/// Adds the header that tells who asks; none where `token` is empty.
void add_bearer(HttpRequest& request, const std::string& token);
/// What a list says of an object; texts may be anything.
struct ListedTexts {
  std::string name = {};
  std::string size = {};
  std::string tag = {};
};
/// Adds the object to `page`; `front` is the URL before its name. A tag that no header can carry is dropped.
/// Throws std::runtime_error for one without a name or a size.
void add_listed(ListPage& page, const std::string& front, const ListedTexts& texts);
/// The tag of a list in the form of a header: some servers leave the quotes out of their lists.
std::string in_quotes(const std::string& tag);
/// A strong ETag as it came; "" for a weak one.
std::string strong_etag(const HttpHead& head);

}  // namespace torch_distinput
