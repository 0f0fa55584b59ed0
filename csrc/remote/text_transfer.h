// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "remote/finished.h"
#include "remote/place.h"
#include "remote/range_transfer.h"
#include "remote/transfer.h"

namespace torch_distinput {

/// A request whose answer is a text: a list of objects, or what a store says when it has written one.
class TextTransfer final : public Transfer {
 public:
  using MakeRequest = std::function<HttpRequest(SigningTime now)>;

  TextTransfer(PlacePtr place, MakeRequest make);

  /// Waits for the answer. Throws ObjectError.
  void wait(const Poll& poll) { finished_.wait(poll); }
  const HttpHead& head() const noexcept { return head_; }     ///< after `wait`
  const std::string& body() const noexcept { return body_; }  ///< after `wait`

  std::string origin() const override { return place_->origin(); }
  Nanos patience() const override { return place_->patience(); }
  bool goes_on() const override { return false; }
  HttpRequest request(SigningTime now) override;
  Verdict judge(const HttpHead& head) override;
  bool take(std::span<const char> bytes) override;
  bool is_whole(bool ended) const override { return ended; }
  Refusal refuse(const HttpHead& head, std::string_view body, int tries) override;
  ObjectError give_up(const std::string& problem, int tries, double seconds) override;
  void finish(std::exception_ptr error) override { finished_.set(std::move(error)); }

 private:
  bool follow(const HttpHead& head);

  PlacePtr place_;
  MakeRequest make_;
  std::string redirected_;  ///< where the server has led to; "": nowhere
  bool is_redirectable_ = false;
  int hops_ = 0;
  HttpHead head_;
  std::string body_;
  Finished finished_;
};

/// What a look at an object tells.
struct ObjectLook {
  ObjectVersion version = {};
  std::string head = {};  ///< its first bytes; "" where the server sends something else
};

/// Asks which version of an object there is, with a request for its first bytes, in which most formats say
/// what follows: unlike HEAD, servers answer it wherever they answer those for its other bytes.
class VersionTransfer final : public Transfer {
 public:
  static constexpr std::uint64_t kHeadBytes = 4096;

  explicit VersionTransfer(PlacePtr place) : place_(std::move(place)) {}

  const PlacePtr& place() const noexcept { return place_; }
  /// Waits for the answer. Throws ObjectError.
  const ObjectLook& wait(const Poll& poll);

  std::string origin() const override { return place_->origin(); }
  Nanos patience() const override { return place_->patience(); }
  bool goes_on() const override { return false; }
  HttpRequest request(SigningTime now) override { return place_->get({0, kHeadBytes}, "", now); }
  Verdict judge(const HttpHead& head) override;
  bool take(std::span<const char> bytes) override;
  bool is_whole(bool) const override { return look_.head.size() == wanted_; }
  Refusal refuse(const HttpHead& head, std::string_view body, int tries) override;
  ObjectError give_up(const std::string& problem, int tries, double seconds) override;
  void finish(std::exception_ptr error) override { finished_.set(std::move(error)); }

 private:
  Verdict judge_body(std::uint64_t bytes);

  PlacePtr place_;
  ObjectLook look_;
  std::uint64_t wanted_ = 0;  ///< bytes of the body
  Finished finished_;
};

}  // namespace torch_distinput
