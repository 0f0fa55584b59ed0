// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace torch_distinput::http_testing
