// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/of_process.h"
#include "remote/object_store.h"
#include "remote/transfer.h"

namespace torch_distinput {

/// A store, how long to wait for it, and where an object of it lies for the time being. Transfers of one
/// object share it. Methods are for the engine's thread, but for those that say otherwise.
class Place {
 public:
  Place(ObjectStorePtr store, std::string url, Nanos patience);

  const ObjectStore& store() const noexcept { return *store_; }   ///< any thread
  const std::string& url() const noexcept { return url_; }        ///< as the user wrote it; any thread
  const std::string& origin() const noexcept { return origin_; }  ///< of the store's requests; any thread
  Nanos patience() const noexcept { return patience_; }           ///< any thread

  /// The request for bytes of the object, at the place that the store has named last. `tag`: of this version
  /// only; "" where that is not known.
  HttpRequest get(ByteRange range, const std::string& tag, SigningTime now) const;
  /// Which version an answer of the place is of, as `ObjectStore::tag_of`: where the store told the version
  /// with its redirect, that one, as long as the place has what it had at first. "" for an answer of a place
  /// that was left.
  std::string tag_of(const HttpHead& head);
  /// Follows a redirecting answer, unless another one has named the next place already. Returns false where
  /// it names no place. Throws ObjectError for one that is not safe (from https to http) or no URL, and for
  /// more than 5 in a row.
  bool follow(const HttpHead& head);
  /// The place answered: the next redirect or refusal is the first one in a row.
  void settle();

  /// What an answer of status 300 and more means. Throws ObjectError where asking again is useless.
  Transfer::Refusal refuse(const HttpHead& head, std::string_view body, int tries);
  /// The error where no attempt succeeded in time.
  ObjectError give_up(const std::string& problem, int tries, double seconds) const;
  /// Any thread.
  ObjectError error(ObjectError::Kind kind, const std::string& problem) const;

 private:
  /// Where the store has led this process; a forked child asks the store again.
  struct Route {
    std::string redirected;  ///< "": the store is asked itself
    std::string left;        ///< the place that refused last
    std::string linked_tag;  ///< the version there by the store's words; "": it did not tell
    std::string own_tag;     ///< the version there by the place's words, which are its own
    int hops = 0;
    bool retried = false;  ///< the store was asked again because a place refused
  };
  bool leave(const std::string& refuser);

  ObjectStorePtr store_;
  std::string url_;
  std::string origin_;
  Nanos patience_;
  mutable OfProcess<Route> route_;
};
using PlacePtr = std::shared_ptr<Place>;

/// So many redirects in a row are followed.
inline constexpr int kMostHops = 5;

/// Whether the request has a signature, which fits no other URL.
bool is_signed(const HttpRequest& request);

/// "https://host:port" of a URL.
std::string origin_of(const std::string& url);

/// The bytes that a "Content-Range: bytes 5-9/100" names, and the size of the object; nullopt for another
/// text. `total` is -1 where it is not known.
struct ContentRange {
  ByteRange range;
  std::int64_t total;
};
std::optional<ContentRange> content_range(const HttpHead& head);

}  // namespace torch_distinput
