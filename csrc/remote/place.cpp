// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/place.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "remote/fault_text.h"
#include "remote/text.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

constexpr std::uint64_t kMostSeconds = 3600;

/// Reads a number from the front of `text` and cuts it off; nullopt where there is none.
std::optional<std::uint64_t> cut_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool cut(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

/// The parameter "t", seconds, of a header such as `RateLimit: "default";r=0;t=5`; "" where it has none.
std::string_view reset_of(std::string_view limit) {
  while (!limit.empty()) {
    const std::size_t end = std::min(limit.find(';'), limit.size());
    std::string_view part = trimmed(limit.substr(0, end));
    if (cut(part, "t=")) return part;
    limit.remove_prefix(std::min(end + 1, limit.size()));
  }
  return {};
}

/// How long the server asks to wait; -1: it does not.
Nanos wish(const HttpHead& head) {
  const std::string after = head.header("retry-after");
  const std::string limit = head.header("ratelimit");
  std::string_view text = after.empty() ? reset_of(limit) : after;
  const auto seconds = cut_number(text);
  if (!seconds) return -1;
  return static_cast<std::int64_t>(std::min(*seconds, kMostSeconds)) * kSecond;
}

/// The scheme of a URL; "" where it is none.
std::string scheme_of(const std::string& url) {
  try {
    return parse_url(url).scheme;
  } catch (const std::invalid_argument&) {
    return {};
  }
}

bool is_overload(int status) { return status == 429 || status == 503; }

bool is_passing(int status) {
  return is_overload(status) || status == 408 || status == 425 || status == 500 || status == 502 ||
         status == 504;
}

/// Removes the headers that may have secrets, or are the store's own.
void keep_only_the_question(HttpRequest& request) {
  std::erase_if(request.headers,
                [](const auto& header) { return header.first != "Range" && header.first != "If-Match"; });
}

}  // namespace

bool is_signed(const HttpRequest& request) {
  return std::any_of(request.headers.begin(), request.headers.end(), [](const auto& header) {
    return header.first == "Authorization" && !header.second.starts_with("Bearer ");
  });
}

std::string origin_of(const std::string& url) {
  const Url parts = parse_url(url);
  return parts.scheme + "://" + parts.authority;
}

std::optional<ContentRange> content_range(const HttpHead& head) {
  const std::string value = head.header("content-range");
  std::string_view text = value;
  if (!cut(text, "bytes ")) return std::nullopt;
  ContentRange found{{0, 0}, -1};
  if (!cut(text, "*")) {
    const auto first = cut_number(text);
    if (!first || !cut(text, "-")) return std::nullopt;
    const auto last = cut_number(text);
    if (!last || *last < *first || *last == UINT64_MAX) return std::nullopt;
    found.range = {*first, *last - *first + 1};
  }
  if (!cut(text, "/")) return std::nullopt;
  if (!cut(text, "*")) {
    const auto total = cut_number(text);
    if (!total || *total > INT64_MAX) return std::nullopt;
    found.total = static_cast<std::int64_t>(*total);
  }
  if (!text.empty()) return std::nullopt;
  return found;
}

Place::Place(ObjectStorePtr store, std::string url, Nanos patience)
    : store_(std::move(store)), url_(std::move(url)), patience_(patience) {
  try {
    origin_ = origin_of(store_->get(url_, {0, 1}, "", std::chrono::system_clock::now()).url);
  } catch (const std::invalid_argument& problem) {
    throw error(ObjectError::Kind::kUnusable, problem.what());
  } catch (const std::runtime_error& problem) {
    throw error(ObjectError::Kind::kDenied, problem.what());
  }
}

HttpRequest Place::get(ByteRange range, const std::string& tag, SigningTime now) const {
  const Route& route = route_.get();
  try {
    HttpRequest request = store_->get(url_, range, tag, now);
    if (route.redirected.empty()) return request;
    // Credentials are the store's: another server does not get them, nor does a signature fit another URL.
    if (origin_of(route.redirected) != origin_ || is_signed(request)) keep_only_the_question(request);
    request.url = route.redirected;
    return request;
  } catch (const std::runtime_error& problem) {
    throw error(ObjectError::Kind::kDenied, problem.what());
  }
}

std::string Place::tag_of(const HttpHead& head) {
  Route& route = route_.get();
  std::string told = store_->tag_of(head);
  if (route.linked_tag.empty()) return told;
  if (head.url == route.left) return {};
  if (head.url != route.redirected) return told;
  if (route.own_tag.empty()) route.own_tag = told;
  return told == route.own_tag ? route.linked_tag : told;
}

bool Place::follow(const HttpHead& head) {
  const std::string location = head.header("location");
  if (location.empty()) return false;
  Route& route = route_.get();
  // Of requests side by side, another one has come further.
  if (!route.redirected.empty() && head.url != route.redirected) return true;
  const auto refused = [&](const std::string& problem) {
    return error(ObjectError::Kind::kRefused, "the server redirects " + problem);
  };
  std::string next = resolve_url(head.url, location);
  const std::string to = "to " + plain_text(shown_url(next));
  const std::string scheme = scheme_of(next);
  if (scheme != "https" && scheme != "http") throw refused(to);
  if (scheme != "https" && scheme_of(head.url) == "https") throw refused("from https " + to);
  if (++route.hops > kMostHops) throw refused("more than " + std::to_string(kMostHops) + " times");
  const std::string linked_tag = store_->linked_tag_of(head);
  if (route.redirected.empty() || !linked_tag.empty()) route.linked_tag = linked_tag;
  route.own_tag.clear();
  route.redirected = std::move(next);
  return true;
}

void Place::settle() {
  Route& route = route_.get();
  route.hops = 0;
  route.retried = false;
}

/// Whether to ask the store for another place, because that at `refuser` refuses: its address has expired.
bool Place::leave(const std::string& refuser) {
  Route& route = route_.get();
  const bool is_here = refuser == route.redirected;
  if (!is_here)
    return !route.redirected.empty() || refuser == route.left;  // an old answer: there is another place
  if (std::exchange(route.retried, true)) return false;
  route.left = std::exchange(route.redirected, {});
  route.hops = 0;
  return true;
}

Transfer::Refusal Place::refuse(const HttpHead& head, std::string_view body, int tries) {
  using Kind = ObjectError::Kind;
  const int status = head.status;
  const bool is_refusal = status == 401 || status == 403 || status == 404 || status == 410;
  if (is_refusal && leave(head.url)) return {};
  const ServiceFault fault = store_->fault_of(head, body);
  if (fault.is_throttled || is_overload(status)) return {true, wish(head)};
  if (is_passing(status)) return {false, wish(head)};
  Kind kind = Kind::kRefused;
  std::string problem = "the server refuses the request";
  if (fault.is_expired) {
    kind = Kind::kExpired;
    problem = "the credentials have expired or are not known";
  } else if (status == 401 || status == 403) {
    kind = Kind::kDenied;
    problem = "access is denied";
  } else if (status == 404 || status == 410) {
    kind = Kind::kMissing;
    problem = "there is no such object";
  } else if (status == 412) {
    kind = Kind::kChanged;
    problem = "the object was replaced while it was read";
  }
  if (!fault.message.empty()) problem += ": " + fault.message;
  throw ObjectError(kind, problem, {shown_url(url_), status, fault.code, fault.request_id, tries, 0.0});
}

ObjectError Place::give_up(const std::string& problem, int tries, double seconds) const {
  return {ObjectError::Kind::kUnavailable, problem, {shown_url(url_), 0, "", "", tries, seconds}};
}

ObjectError Place::error(ObjectError::Kind kind, const std::string& problem) const {
  return {kind, problem, {.url = shown_url(url_)}};
}

}  // namespace torch_distinput
