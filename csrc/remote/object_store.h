// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "remote/http.h"
#include "torch_distinput/storage.h"

namespace torch_distinput {

/// An object that a store has.
struct ListedObject {
  std::string url = {};    ///< as a user would write it: "s3://bucket/key"
  std::uint64_t size = 0;  ///< bytes
  std::string tag = {};    ///< its version, as `ObjectStore::tag_of`; "" where the list does not tell
};

/// One page of a list.
struct ListPage {
  std::vector<ListedObject> objects;
  std::string continuation;  ///< asks for the next page; "" at the end
};

/// What a service says of a request that failed; texts are cut to 200 bytes of printable ASCII.
struct ServiceFault {
  std::string code = {};        ///< "NoSuchKey", "AuthenticationFailed"; "" where it does not tell
  std::string message = {};     ///< a sentence of the service
  std::string request_id = {};  ///< what its operators ask for
  bool is_throttled = false;    ///< says "slow down" with a status that others use for errors
  bool is_expired = false;      ///< the credentials expired, or the clock of this machine is wrong
};

/// The time that requests are signed with.
using SigningTime = std::chrono::system_clock::time_point;

/// Speaks the language of one kind of object store with one set of options and credentials: makes requests
/// and reads responses, and does no I/O of its own, but for what a credential callback does. URLs are those
/// that users write. Safe from any thread. Responses may be anything: what cannot be read is a
/// std::runtime_error that says so, and nothing of a response decides how much memory is taken.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// The request for the bytes `range` of the object at `url`. `tag`, unless empty: of this version only.
  /// Throws std::invalid_argument for a URL that this store cannot have, std::runtime_error where no
  /// credentials can be had.
  virtual HttpRequest get(const std::string& url, ByteRange range, const std::string& tag,
                          SigningTime now) const = 0;
  /// The request that makes `body` the object at `url`. Throws std::invalid_argument where the store cannot
  /// be written to.
  virtual HttpRequest put(const std::string& url, std::string body, SigningTime now) const = 0;
  /// The request for a page of the objects whose URLs begin with `prefix`. `continuation`: of the page
  /// before; "" for the first. Throws std::invalid_argument where the store cannot list (http, https).
  virtual HttpRequest list(const std::string& prefix, const std::string& continuation,
                           SigningTime now) const = 0;
  /// Reads the response to `list`. Throws std::runtime_error where it is not a list.
  virtual ListPage read_list(const std::string& prefix, const HttpHead& head,
                             std::string_view body) const = 0;

  /// Which version of an object a response is of: its generation or its strong ETag, with quotes as it came;
  /// "" where the server does not tell, or tells a weak one.
  virtual std::string tag_of(const HttpHead& head) const = 0;
  /// The version of what a redirect leads to, in the same form; "" where the store does not tell. It goes
  /// before what is said there: another server has tags of its own.
  virtual std::string linked_tag_of(const HttpHead&) const { return {}; }
  /// Reads the response to a request that failed.
  virtual ServiceFault fault_of(const HttpHead& head, std::string_view body) const = 0;

  /// Gets credentials where there are none yet or those there are expire within 5 minutes, so that `get`,
  /// `put` and `list` do not wait. May wait for a callback: threads that read call it, never the engine's.
  virtual void prepare(SigningTime now) const = 0;
  /// Looks for new credentials after the store refused those that it had or said that they expired. Returns
  /// whether there are others now. May wait for a callback.
  virtual bool refresh() const = 0;
};
using ObjectStorePtr = std::shared_ptr<const ObjectStore>;

/// The store for objects at URLs like `url` (scheme and authority count). `options` go before the
/// environment and files of credentials. `callback` may be empty; it is asked where nothing else has
/// credentials, and again 5 minutes before they expire. Throws std::invalid_argument naming an option that
/// the store does not take, and the rule and value of one that is wrong (never the value of a secret).
ObjectStorePtr make_store(const std::string& url, const StorageOptions& options,
                          CredentialCallback callback = {});

}  // namespace torch_distinput
