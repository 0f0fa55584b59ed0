// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "remote/listing.h"
#include "remote/over_http.h"
#include "support/errors.h"

namespace torch_distinput::http_testing {
namespace {

class EngineRedirects : public OverHttp {};

/// Gets `count` parts of 1,000 bytes side by side, and checks them.
void get_parts(Engine& engine, const HttpServer& server, const PlacePtr& place, std::size_t count) {
  std::vector<std::shared_ptr<RangeTransfer>> transfers;
  for (std::size_t i = 0; i < count; ++i) {
    transfers.push_back(transfer_of(place, {server.object().size(), HttpServer::kTag}, {i * 1'000, 1'000}));
    engine.begin(transfers.back());
  }
  for (const auto& transfer : transfers) {
    const std::span<const char> bytes = transfer->wait(time_limit());
    ASSERT_EQ(std::string_view(bytes.data(), bytes.size()),
              std::string_view(server.object()).substr(transfer->range().offset, 1'000));
  }
}

TEST_F(EngineRedirects, OfManyRequestsSideBySideAreFollowed) {
  HttpServer server(random_object(100'000), [](const Asked& asked, Reply right) {
    return asked.path == "/object" ? status(302, {{"Location", "/there"}}) : right;
  });
  FetchRules rules = fast_rules();
  rules.least_hedge = 20 * kSecond;  // late ones of a busy machine are not asked for twice
  Engine engine(rules);
  const PlacePtr place = place_of(server.url());
  get_parts(engine, server, place, 100);
  const int before = server.requests();
  EXPECT_LE(before, 200);
  get_parts(engine, server, place, 100);
  EXPECT_EQ(server.requests(), before + 100) << "the place is known";
}

// As where addresses are signed for a while.
TEST_F(EngineRedirects, ToAddressesThatExpireAreAskedForAgain) {
  std::atomic<int> address{0};
  HttpServer server(random_object(100'000), [&](const Asked& asked, Reply right) {
    const std::string path = "/signed-" + std::to_string(address);
    if (asked.path == "/object") return status(302, {{"Location", path}});
    return asked.path == path ? right : status(403);
  });
  Engine engine(fast_rules());
  const PlacePtr place = place_of(server.url());
  for (; address < 5; ++address) get_parts(engine, server, place, 100);
}

TEST_F(EngineRedirects, InCirclesAreRefused) {
  HttpServer server(random_object(100'000), [](const Asked& asked, Reply) {
    return status(302, {{"Location", asked.path == "/object" ? "/there" : "/object"}});
  });
  Engine engine(fast_rules());
  const PlacePtr place = place_of(server.url());
  const auto error = error_of([&] { get_parts(engine, server, place, 1); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), Kind::kRefused);
  EXPECT_EQ(server.requests(), 6);
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(error_of([&] { get_parts(engine, server, place, 50); }));
}

/// The names that the Hub at `server` lists for the repository "old".
std::vector<std::string> listed(const HttpServer& server) {
  const std::string host = server.url().substr(0, server.url().rfind('/'));
  const std::string url = "hf://datasets/user/old/";
  const auto place = std::make_shared<Place>(make_store(url, {{"endpoint_url", host}, {"anonymous", "true"}}),
                                             url, 10 * kSecond);
  std::vector<std::string> names;
  for (const ListedObject& object : list_objects(place, url, time_limit())) names.push_back(object.url);
  return names;
}

Reply list_of_one_file() {
  return {.headers = {{"Content-Type", "application/json"}},
          .body = R"([{"type": "file", "path": "a", "size": 3, "oid": "1"}])"};
}

// As where a repository of the Hub was renamed.
TEST_F(EngineRedirects, OfListsAreFollowedWithinTheServer) {
  HttpServer server("", [](const Asked& asked, Reply) {
    if (asked.path.starts_with("/api/datasets/user/new/")) return list_of_one_file();
    return status(307, {{"Location", "/api/datasets/user/new/tree/main?recursive=true"}});
  });
  EXPECT_EQ(listed(server), (std::vector<std::string>{"hf://datasets/user/old/a"}));
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(EngineRedirects, OfListsToOtherServersOrInCirclesAreRefused) {
  HttpServer other("", [](const Asked&, Reply) { return list_of_one_file(); });
  HttpServer server("", [&](const Asked&, Reply) { return status(307, {{"Location", other.url()}}); });
  const auto error = error_of([&] { listed(server); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), Kind::kRefused);
  EXPECT_EQ(other.requests(), 0);
  HttpServer circle("", [](const Asked& asked, Reply) { return status(307, {{"Location", asked.path}}); });
  EXPECT_TRUE(error_of([&] { listed(circle); }));
  EXPECT_EQ(circle.requests(), 6);
}

}  // namespace
}  // namespace torch_distinput::http_testing
