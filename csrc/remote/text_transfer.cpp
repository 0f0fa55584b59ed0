// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/text_transfer.h"

#include <charconv>
#include <utility>

namespace torch_distinput {
namespace {

/// No page of a list has more.
constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

}  // namespace

TextTransfer::TextTransfer(PlacePtr place, MakeRequest make)
    : place_(std::move(place)), make_(std::move(make)) {}

HttpRequest TextTransfer::request(SigningTime now) {
  body_.clear();
  return make_(now);
}

Transfer::Verdict TextTransfer::judge(const HttpHead& head) {
  head_ = head;
  if (head.status >= 300) return Verdict::kRead;
  return head.status >= 200 ? Verdict::kTake : Verdict::kRepeat;
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

const ObjectVersion& VersionTransfer::wait(const Poll& poll) {
  finished_.wait(poll);
  return version_;
}

Transfer::Verdict VersionTransfer::judge(const HttpHead& head) {
  if (head.status >= 300 && head.status < 400)
    return place_->follow(head) ? Verdict::kRedirect : Verdict::kRead;
  const auto got = content_range(head);
  version_.tag = place_->tag_of(head);
  // An empty object has no first byte.
  if (head.status == 416 && got && got->total == 0) return Verdict::kDone;
  if (head.status >= 400) return Verdict::kRead;
  // An answer to another question may be of another object.
  if (got && (got->range.offset != 0 || got->range.size != 1 || got->total < 0)) return Verdict::kRepeat;
  place_->settle();
  if (got) {
    version_.size = static_cast<std::uint64_t>(got->total);
    return Verdict::kTake;
  }
  const std::string length = head.header("content-length");
  const auto [end, problem] = std::from_chars(length.data(), length.data() + length.size(), version_.size);
  const bool tells =
      head.status == 200 && !length.empty() && problem == std::errc() && end == length.data() + length.size();
  return tells ? Verdict::kDone : Verdict::kRepeat;
}

Transfer::Refusal VersionTransfer::refuse(const HttpHead& head, std::string_view body, int tries) {
  return place_->refuse(head, body, tries);
}

ObjectError VersionTransfer::give_up(const std::string& problem, int tries, double seconds) {
  return place_->give_up(problem, tries, seconds);
}

}  // namespace torch_distinput
