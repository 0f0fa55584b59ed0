// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/range_transfer.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "remote/fault_text.h"

namespace torch_distinput {
namespace {

/// So many bytes that nobody asked for are taken of a server that sends whole objects.
constexpr std::uint64_t kMostWaste = std::uint64_t{1} << 20;

std::int64_t content_length(const HttpHead& head) {
  const std::string text = head.header("content-length");
  std::int64_t value = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() ? value : -1;
}

std::string shown(const ObjectVersion& version) {
  return (version.tag.empty() ? "" : plain_text(version.tag) + " of ") + std::to_string(version.size) +
         " bytes";
}

}  // namespace

std::string replaced_text(const ObjectVersion& wanted, const ObjectVersion& found) {
  return "the object was replaced while it was read: version " + shown(wanted) + " was wanted, " +
         shown(found) + " is there";
}

RangeTransfer::RangeTransfer(PlacePtr place, ObjectVersion version, ByteRange range, Block memory,
                             Arrival arrival)
    : place_(std::move(place)),
      version_(std::move(version)),
      range_(range),
      memory_(std::move(memory)),
      arrival_(std::move(arrival)) {}

std::span<const char> RangeTransfer::wait(const Poll& poll) {
  finished_.wait(poll);
  return bytes();
}

HttpRequest RangeTransfer::request(SigningTime now) {
  const ByteRange missing{range_.offset + received_, range_.size - received_};
  HttpRequest request = place_->get(missing, version_.tag, now);
  request.expected = missing.size;
  return request;
}

Transfer::Verdict RangeTransfer::judge(const HttpHead& head) {
  passed_over_ = 0;
  ends_early_ = false;
  if (head.status >= 300 && head.status < 400)
    return place_->follow(head) ? Verdict::kRedirect : Verdict::kRead;
  if (head.status >= 400) return Verdict::kRead;
  if (head.status != 200 && head.status != 206) return Verdict::kRepeat;
  const auto got = content_range(head);
  if (!got) return head.status == 200 ? judge_whole(head) : Verdict::kRepeat;
  check_version(head, got->total);
  const std::uint64_t begin = range_.offset + received_;
  const std::uint64_t end = range_.offset + range_.size;
  if (got->range.offset != begin || got->range.size == 0 || got->range.offset + got->range.size > end)
    return Verdict::kRepeat;
  place_->settle();
  return Verdict::kTake;
}

/// The answer is the whole object.
Transfer::Verdict RangeTransfer::judge_whole(const HttpHead& head) {
  const std::int64_t size = content_length(head);
  if (size < 0) return Verdict::kRepeat;
  check_version(head, size);
  if (version_.size - range_.size > kMostWaste)
    throw place_->error(ObjectError::Kind::kRefused,
                        "the server sends whole objects where parts of them are asked for");
  place_->settle();
  passed_over_ = range_.offset + received_;
  ends_early_ = true;
  return Verdict::kTake;
}

void RangeTransfer::check_version(const HttpHead& head, std::int64_t size) const {
  const std::string tag = place_->tag_of(head);
  const bool same_tag = tag.empty() || version_.tag.empty() || tag == version_.tag;
  const bool same_size = size < 0 || static_cast<std::uint64_t>(size) == version_.size;
  if (same_tag && same_size) return;
  const ObjectVersion found{size < 0 ? version_.size : static_cast<std::uint64_t>(size), tag};
  throw place_->error(ObjectError::Kind::kChanged, replaced_text(version_, found));
}

bool RangeTransfer::take(std::span<const char> bytes) {
  const std::size_t before = static_cast<std::size_t>(std::min<std::uint64_t>(passed_over_, bytes.size()));
  passed_over_ -= before;
  bytes = bytes.subspan(before);
  const std::uint64_t room = range_.size - received_;
  if (bytes.size() > room) {
    if (!ends_early_) return false;
    bytes = bytes.first(static_cast<std::size_t>(room));
  }
  if (!bytes.empty()) std::memcpy(static_cast<char*>(memory_.data()) + received_, bytes.data(), bytes.size());
  received_ += bytes.size();
  return true;
}

Transfer::Refusal RangeTransfer::refuse(const HttpHead& head, std::string_view body, int tries) {
  return place_->refuse(head, body, tries);
}

void RangeTransfer::finish(std::exception_ptr error) {
  finished_.set(std::move(error));
  if (arrival_) arrival_(shared_from_this());
}

ObjectError RangeTransfer::give_up(const std::string& problem, int tries, double seconds) {
  return place_->give_up(problem, tries, seconds);
}

}  // namespace torch_distinput
