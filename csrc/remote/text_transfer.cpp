// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/text_transfer.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "remote/url.h"

namespace torch_distinput {
namespace {

/// No page of a list has more.
constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

}  // namespace

TextTransfer::TextTransfer(PlacePtr place, MakeRequest make)
    : place_(std::move(place)), make_(std::move(make)) {}

HttpRequest TextTransfer::request(SigningTime now) {
  body_.clear();
  HttpRequest request = make_(now);
  if (!redirected_.empty()) request.url = redirected_;
  is_redirectable_ = request.method == "GET" && !is_signed(request);
  return request;
}

Transfer::Verdict TextTransfer::judge(const HttpHead& head) {
  head_ = head;
  if (head.status < 400 && follow(head)) return Verdict::kRedirect;
  if (head.status >= 300) return Verdict::kRead;
  return head.status >= 200 ? Verdict::kTake : Verdict::kRepeat;
}

/// Follows a redirect within the server: a list of what was renamed. Another one does not get the question.
bool TextTransfer::follow(const HttpHead& head) {
  const std::string location = head.header("location");
  if (head.status < 300 || location.empty() || !is_redirectable_) return false;
  std::string next = resolve_url(head.url, location);
  if (!next.starts_with(place_->origin() + "/") || ++hops_ > kMostHops) return false;
  redirected_ = std::move(next);
  return true;
}

bool TextTransfer::take(std::span<const char> bytes) {
  if (bytes.size() > kMostTextBytes - body_.size()) return false;
  body_.append(bytes.data(), bytes.size());
  return true;
}

Transfer::Refusal TextTransfer::refuse(const HttpHead& head, std::string_view body, int tries) {
  return place_->refuse(head, body, tries);
}

ObjectError TextTransfer::give_up(const std::string& problem, int tries, double seconds) {
  return place_->give_up(problem, tries, seconds);
}

const ObjectLook& VersionTransfer::wait(const Poll& poll) {
  finished_.wait(poll);
  return look_;
}

Transfer::Verdict VersionTransfer::judge(const HttpHead& head) {
  look_ = {};
  if (head.status >= 300 && head.status < 400)
    return place_->follow(head) ? Verdict::kRedirect : Verdict::kRead;
  const auto got = content_range(head);
  look_.version.tag = place_->tag_of(head);
  // An empty object has no first byte.
  if (head.status == 416 && got && got->total == 0) return Verdict::kDone;
  if (head.status >= 400) return Verdict::kRead;
  if (got) {
    // An answer to another question may be of another object.
    if (got->total < 0) return Verdict::kRepeat;
    const auto total = static_cast<std::uint64_t>(got->total);
    if (got->range != ByteRange{0, std::min(total, kHeadBytes)}) return Verdict::kRepeat;
    place_->settle();
    look_.version.size = total;
    return judge_body(got->range.size);
  }
  place_->settle();
  std::uint64_t& size = look_.version.size;
  const std::string length = head.header("content-length");
  const auto [end, problem] = std::from_chars(length.data(), length.data() + length.size(), size);
  const bool tells =
      head.status == 200 && !length.empty() && problem == std::errc() && end == length.data() + length.size();
  if (!tells) return Verdict::kRepeat;
  return judge_body(size <= kHeadBytes ? size : 0);
}

/// The answer is right; `bytes` of its body are the head of the object.
Transfer::Verdict VersionTransfer::judge_body(std::uint64_t bytes) {
  wanted_ = bytes;
  return bytes > 0 ? Verdict::kTake : Verdict::kDone;
}

bool VersionTransfer::take(std::span<const char> bytes) {
  if (bytes.size() > wanted_ - look_.head.size()) return false;
  look_.head.append(bytes.data(), bytes.size());
  return true;
}

Transfer::Refusal VersionTransfer::refuse(const HttpHead& head, std::string_view body, int tries) {
  return place_->refuse(head, body, tries);
}

ObjectError VersionTransfer::give_up(const std::string& problem, int tries, double seconds) {
  return place_->give_up(problem, tries, seconds);
}

}  // namespace torch_distinput
