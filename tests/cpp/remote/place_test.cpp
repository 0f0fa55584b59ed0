// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/place.h"

#include <optional>

#include <gtest/gtest.h>

#include "remote/object_error.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

using Kind = ObjectError::Kind;

Place web_place(const std::string& url, const StorageOptions& options = {}) {
  return {make_store(url, options), url, kSecond};
}

/// An answer of `from` to a request that was sent there.
HttpHead redirect(const std::string& from, const std::string& to) {
  return {.status = 302, .headers = {{"location", to}}, .url = from};
}
HttpHead status(int number, const std::string& from, const std::string& retry_after = "") {
  HttpHead head{.status = number, .url = from};
  if (!retry_after.empty()) head.headers["retry-after"] = retry_after;
  return head;
}

std::string asked(const Place& place) { return place.get({0, 1}, "", {}).url; }

/// The kind of error that `call` throws.
template <class Call>
std::optional<Kind> kind_of(Call call) {
  try {
    call();
  } catch (const ObjectError& error) {
    return error.kind();
  }
  return std::nullopt;
}

TEST(Place, FollowsRedirectsWithoutTheCredentialsOfTheStore) {
  Place place = web_place("https://host/a", {{"token", "secret"}, {"headers.X", "secret"}});
  EXPECT_EQ(place.origin(), "https://host");
  ASSERT_TRUE(place.follow(redirect("https://host/a", "/b")));
  EXPECT_EQ(asked(place), "https://host/b");
  ASSERT_TRUE(place.follow(redirect("https://host/b", "https://other/c?signature")));
  const HttpRequest request = place.get({5, 5}, "\"tag\"", {});
  EXPECT_EQ(request.url, "https://other/c?signature");
  EXPECT_EQ(request.headers, (std::vector<std::pair<std::string, std::string>>{{"Range", "bytes=5-9"},
                                                                               {"If-Match", "\"tag\""}}));
}

TEST(Place, RefusesToLeaveHttps) {
  for (const std::string url : {"https://host/a", "HTTPS://host/a"}) {
    for (const char* to :
         {"http://host/a", "HTTP://host/a", "ftp://host/a", "file:///etc/passwd", "s3://b/k"}) {
      Place place = web_place(url);
      EXPECT_EQ(kind_of([&] { place.follow(redirect(url, to)); }), Kind::kRefused) << url << " to " << to;
      EXPECT_EQ(asked(place), url);
    }
    Place place = web_place(url);
    EXPECT_TRUE(place.follow(redirect(url, "HTTPS://other/a")));
  }
  Place place = web_place("http://host/a");
  EXPECT_TRUE(place.follow(redirect("http://host/a", "https://host/a")));
  EXPECT_EQ(kind_of([&] { place.follow(redirect("https://host/a", "http://host/a")); }), Kind::kRefused);
}

TEST(Place, TellsNoSecretsAndNoControlCharactersOfARedirect) {
  Place place = web_place("https://host/a?hidden");
  const std::string problem = message_of_any(
      [&] { place.follow(redirect("https://host/a?hidden", "http://me:hidden@h/\x1b[2J?hidden")); });
  EXPECT_FALSE(has(problem, "hidden"));
  EXPECT_FALSE(has(problem, "\x1b"));
}

TEST(Place, RefusesALocationThatIsNone) {
  Place place = web_place("http://host/a");
  EXPECT_FALSE(place.follow(status(302, "http://host/a")));
  for (const char* to : {"://", "http://", "https:///a", "http://?a"})
    EXPECT_EQ(kind_of([&] { place.follow(redirect("http://host/a", to)); }), Kind::kRefused) << to;
}

TEST(Place, FollowsFiveRedirectsInARow) {
  Place place = web_place("http://host/0");
  std::string from = "http://host/0";
  for (int hop = 1; hop <= 5; ++hop) {
    ASSERT_TRUE(place.follow(redirect(from, "/" + std::to_string(hop))));
    from = asked(place);
  }
  EXPECT_EQ(kind_of([&] { place.follow(redirect(from, "/6")); }), Kind::kRefused);
  place.settle();
  EXPECT_TRUE(place.follow(redirect(from, "/6")));
}

TEST(Place, CountsTheRedirectsOfRequestsSideBySideOnce) {
  Place place = web_place("http://host/a");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(place.follow(redirect("http://host/a", "b")));
  EXPECT_EQ(asked(place), "http://host/b");
}

TEST(Place, AsksTheStoreAgainWhereAnAddressHasExpired) {
  const std::string store = "http://host/a";
  Place place = web_place(store);
  for (int turn = 0; turn < 3; ++turn) {
    const std::string signed_url = "http://cdn/" + std::to_string(turn);
    ASSERT_TRUE(place.follow(redirect(store, signed_url)));
    place.settle();
    // All requests that are under way there are refused.
    for (int i = 0; i < 5; ++i) EXPECT_NO_THROW(place.refuse(status(403, signed_url), "", 1));
    EXPECT_EQ(asked(place), store);
  }
}

TEST(Place, GivesUpWhereANewAddressIsRefusedToo) {
  const std::string store = "http://host/a";
  Place place = web_place(store);
  ASSERT_TRUE(place.follow(redirect(store, "http://cdn/1")));
  EXPECT_NO_THROW(place.refuse(status(403, "http://cdn/1"), "", 1));
  ASSERT_TRUE(place.follow(redirect(store, "http://cdn/2")));
  EXPECT_EQ(kind_of([&] { place.refuse(status(403, "http://cdn/2"), "", 2); }), Kind::kDenied);
}

TEST(Place, TellsErrorsByTheirStatus) {
  const std::string url = "http://host/a";
  Place place = web_place(url);
  const auto kind = [&](int number) { return kind_of([&] { place.refuse(status(number, url), "", 1); }); };
  for (const int number : {401, 403}) EXPECT_EQ(kind(number), Kind::kDenied) << number;
  for (const int number : {404, 410}) EXPECT_EQ(kind(number), Kind::kMissing) << number;
  for (const int number : {300, 304, 400, 405, 416, 501, 505})
    EXPECT_EQ(kind(number), Kind::kRefused) << number;
  EXPECT_EQ(kind(412), Kind::kChanged);
  for (const int number : {408, 425, 500, 502, 504})
    EXPECT_FALSE(place.refuse(status(number, url), "", 1).is_throttled) << number;
  for (const int number : {429, 503})
    EXPECT_TRUE(place.refuse(status(number, url), "", 1).is_throttled) << number;
}

TEST(Place, WaitsAsTheServerAsksButNotForever) {
  const std::string url = "http://host/a";
  Place place = web_place(url);
  const auto wish = [&](const std::string& text) {
    return place.refuse(status(503, url, text), "", 1).retry_after;
  };
  EXPECT_EQ(wish("5"), 5 * kSecond);
  EXPECT_EQ(wish("0"), 0);
  EXPECT_EQ(wish("18446744073709551615"), 3600 * kSecond);
  for (const char* text : {"", "-5", "soon", "99999999999999999999999", "Wed, 21 Oct 2026 07:28:00 GMT"})
    EXPECT_EQ(wish(text), -1) << text;
  HttpHead head = status(429, url);
  head.headers["ratelimit"] = "\"limit=100\";r=0; t=7";
  EXPECT_EQ(place.refuse(head, "", 1).retry_after, 7 * kSecond);
  head.headers["ratelimit"] = "limit=100, remaining=0";
  EXPECT_EQ(place.refuse(head, "", 1).retry_after, -1);
}

TEST(ContentRange, HasRangeAndSize) {
  const auto parse = [](const std::string& text) {
    return content_range({.headers = {{"content-range", text}}});
  };
  EXPECT_EQ(parse("bytes 5-9/100")->range, (ByteRange{5, 5}));
  EXPECT_EQ(parse("bytes 5-9/100")->total, 100);
  EXPECT_EQ(parse("bytes 0-0/*")->total, -1);
  EXPECT_EQ(parse("bytes */0")->total, 0);
  EXPECT_EQ(parse("bytes */0")->range.size, 0u);
  for (const char* text : {"",
                           "bytes",
                           "bytes ",
                           "bytes 5",
                           "bytes 5-",
                           "bytes 5-9",
                           "bytes -9/100",
                           "bytes 9-5/100",
                           "5-9/100",
                           "items 5-9/100",
                           "bytes 5-9/",
                           "bytes 5-9/x",
                           "bytes 5-9/-1",
                           "bytes 5 -9/100",
                           "bytes 5-9/9223372036854775808",
                           "bytes 0-18446744073709551615/*",
                           "bytes 0-99999999999999999999999/*",
                           "bytes +5-9/100",
                           "bytes 5-9/100 ",
                           "bytes 5-9/*x"})
    EXPECT_FALSE(parse(text)) << text;
}

}  // namespace
}  // namespace torch_distinput
