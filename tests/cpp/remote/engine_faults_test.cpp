// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "remote/over_http.h"
#include "support/errors.h"

namespace torch_distinput::http_testing {
namespace {

constexpr ByteRange kPart{1'000, 100'000};

/// Gets a part of an object from a server with a script.
class EngineFaults : public OverHttp {
 protected:
  void serve(HttpServer::Script script, std::size_t size = 200'000) {
    server_ = std::make_unique<HttpServer>(random_object(size), std::move(script));
  }
  std::string get(FetchRules rules = fast_rules(), Nanos patience = 10 * kSecond) {
    const PlacePtr place = place_of(server_->url(), patience);
    const auto transfer = transfer_of(place, {server_->object().size(), HttpServer::kTag}, kPart);
    Engine engine(rules);
    engine.begin(transfer);
    const std::span<const char> bytes = transfer->wait(time_limit());
    counts_ = engine.counts();
    return {bytes.data(), bytes.size()};
  }
  std::string wanted() const { return server_->object().substr(kPart.offset, kPart.size); }
  Kind failure(Nanos patience = 10 * kSecond) {
    const auto error = error_of([&] { get(fast_rules(), patience); });
    if (!error) throw std::logic_error("nothing failed");
    problem_ = error->what();
    return error->kind();
  }
  std::uint64_t offset_of_request(std::size_t index) const { return server_->asked().at(index).range.offset; }

  std::unique_ptr<HttpServer> server_;
  EngineCounts counts_;
  std::string problem_;
};

/// Lets the first answers be those of `fault`, and the others right.
HttpServer::Script first(int count, std::function<Reply(Reply right)> fault) {
  return [=](const Asked& asked, Reply right) {
    return asked.number <= count ? fault(std::move(right)) : right;
  };
}

TEST_F(EngineFaults, NoneMeansOneRequest) {
  serve(first(0, {}));
  EXPECT_EQ(get(), wanted());
  EXPECT_EQ(server_->requests(), 1);
  EXPECT_EQ(counts_.body_bytes, 100'000);
  EXPECT_EQ(counts_.wasted_bytes, 0);
}

TEST_F(EngineFaults, ErrorsThatPassAreRepeated) {
  for (const int number : {408, 425, 429, 500, 502, 503, 504}) {
    serve(first(2, [=](Reply) { return status(number); }));
    EXPECT_EQ(get(), wanted()) << number;
    EXPECT_EQ(server_->requests(), 3);
  }
}

TEST_F(EngineFaults, AfterACutTheRestIsAskedFor) {
  for (const auto end : {Reply::End::kClose, Reply::End::kReset}) {
    serve(first(3, [=](Reply right) {
      right.sent = 10'000;
      right.end = end;
      return right;
    }));
    EXPECT_EQ(get(), wanted());
    EXPECT_EQ(server_->requests(), 4);
    // What was received before a reset may be lost with it.
    if (end == Reply::End::kClose) {
      for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(offset_of_request(i), 1'000 + 10'000 * i);
    }
  }
}

TEST_F(EngineFaults, ABodyThatIsShorterThanItsRangeIsContinued) {
  serve(first(1, [](Reply right) {
    right.body.resize(10);
    return right;
  }));
  EXPECT_EQ(get(), wanted());
  EXPECT_EQ(offset_of_request(1), 1'010u);
}

TEST_F(EngineFaults, AnswersToOtherQuestionsAreNotTaken) {
  for (const char* range :
       {"bytes 0-99999/200000", "bytes 1001-1001/200000", "bytes 1000-200999/*", "items 1-2/3", ""}) {
    serve(first(1, [=](Reply right) {
      right.headers = {{"Content-Range", range}};
      return right;
    }));
    EXPECT_EQ(get(), wanted()) << range;
    EXPECT_EQ(server_->requests(), 2);
  }
  serve(first(1000, [](Reply right) {
    right.headers = {{"Content-Range", "bytes 0-1/200000"}};
    return right;
  }));
  EXPECT_EQ(failure(), Kind::kUnavailable);
  EXPECT_EQ(server_->requests(), 6);
}

TEST_F(EngineFaults, MoreBytesThanWereAskedForAreNotTaken) {
  serve(first(1000, [](Reply right) {
    right.body += std::string(100'000, 'x');
    return right;
  }));
  EXPECT_EQ(failure(), Kind::kUnavailable);
  EXPECT_TRUE(has(problem_, "more bytes came than were asked for"));
  EXPECT_EQ(server_->requests(), 6);
}

TEST_F(EngineFaults, AnotherVersionIsAnErrorAtOnce) {
  const auto with = [](const char* name, const char* value) {
    return first(1000, [=](Reply right) {
      for (auto& [other, old] : right.headers) {
        if (other == name) old = value;
      }
      return right;
    });
  };
  serve(with("Content-Range", "bytes 1000-100999/300000"));
  EXPECT_EQ(failure(), Kind::kChanged);
  EXPECT_EQ(server_->requests(), 1);
  serve(with("ETag", "\"v2\x1b[2J\""));
  EXPECT_EQ(failure(), Kind::kChanged);
  EXPECT_FALSE(has(problem_, "\x1b"));
  serve([](const Asked& asked, Reply) {
    EXPECT_TRUE(has(asked.head, "\r\nIf-Match: \"v1\"\r\n"));
    return status(412);
  });
  EXPECT_EQ(failure(), Kind::kChanged);
}

TEST_F(EngineFaults, AVersionThatChangesBetweenTwoAnswersIsAnError) {
  serve([](const Asked& asked, Reply right) {
    right.sent = 10'000;
    right.end = Reply::End::kClose;
    if (asked.number > 1) right.headers[0].second = "\"v2\"";
    return right;
  });
  EXPECT_EQ(failure(), Kind::kChanged);
}

TEST_F(EngineFaults, WholeObjectsAreTakenWhereTheyAreSmall) {
  const auto whole = [this](const Asked&, Reply) -> Reply { return {.body = server_->object()}; };
  serve(whole);
  EXPECT_EQ(get(), wanted());
  serve(whole, std::size_t{2} << 20);
  EXPECT_EQ(failure(), Kind::kRefused);
  EXPECT_EQ(server_->requests(), 1);
}

TEST_F(EngineFaults, ServersThatFallSilentAreAskedAgain) {
  for (const std::size_t sent : {std::size_t{0}, std::size_t{10'000}}) {
    serve(first(1, [=](Reply right) {
      right.sent = sent;
      right.end = Reply::End::kHang;
      return right;
    }));
    FetchRules rules = fast_rules();
    rules.stall = 100 * kMillisecond;
    EXPECT_EQ(get(rules), wanted());
    EXPECT_EQ(counts_.fetches.stalled, 1);
    EXPECT_EQ(offset_of_request(1), 1'000 + sent);
  }
}

TEST_F(EngineFaults, ServersThatOnlyFailAreGivenUp) {
  std::string long_head = "HTTP/1.1 206 OK\r\n";
  while (long_head.size() < (std::size_t{1} << 20))
    long_head += "X-Long: " + std::string(1'000, 'x') + "\r\n";
  const Reply replies[] = {
      status(503),
      status(500),
      {.end = Reply::End::kClose, .raw = "no HTTP\r\n\r\n"},
      {.end = Reply::End::kClose, .raw = long_head},
      {.end = Reply::End::kHang, .raw = "HTTP/1.1 206 OK\r\n"},
  };
  for (Reply reply : replies) {
    serve(first(1'000'000, [=](Reply) { return reply; }));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(failure(300 * kMillisecond), Kind::kUnavailable);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3)) << problem_;
    EXPECT_LE(server_->requests(), 30) << "the first repetitions are free, those after them are rare";
  }
}

TEST_F(EngineFaults, RefusalsAreErrorsAtOnce) {
  const std::pair<int, Kind> kinds[] = {{400, Kind::kRefused}, {403, Kind::kDenied},  {404, Kind::kMissing},
                                        {410, Kind::kMissing}, {416, Kind::kRefused}, {501, Kind::kRefused}};
  for (const auto& [number, kind] : kinds) {
    serve(first(1000, [number = number](Reply) { return status(number); }));
    EXPECT_EQ(failure(), kind) << number;
    EXPECT_EQ(server_->requests(), 1);
    EXPECT_TRUE(has(problem_, "status " + std::to_string(number)));
  }
}

}  // namespace
}  // namespace torch_distinput::http_testing
