// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/remote_object.h"

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "remote/ahead_claim.h"
#include "remote/announced_requests.h"
#include "remote/listing.h"
#include "remote/over_http.h"
#include "remote/read_counts.h"
#include "runtime/forked_child.h"
#include "support/errors.h"

namespace torch_distinput::http_testing {
namespace {

class RemoteObjects : public OverHttp {
 protected:
  static std::string read(RemoteObject& object, const ByteRange& range) {
    std::string bytes(range.size, '\0');
    bytes.resize(object.read(bytes, range.offset, time_limit()));
    return bytes;
  }
  static std::shared_ptr<RemoteObject> open(const HttpServer& server) {
    const PlacePtr place = place_of(server.url());
    const ObjectLook look = look_at(place, time_limit());
    return std::make_shared<RemoteObject>(place, look.version, look.head);
  }
};

TEST_F(RemoteObjects, EndWhereTheObjectEnds) {
  HttpServer server(random_object(100'000));
  const auto object = open(server);
  EXPECT_EQ(object->version(), (ObjectVersion{100'000, HttpServer::kTag}));
  EXPECT_EQ(read(*object, {99'990, 50}), server.object().substr(99'990));
  EXPECT_EQ(read(*object, {100'000, 50}), "");
  EXPECT_EQ(read(*object, {~std::uint64_t{0}, 50}), "");
  EXPECT_EQ(read(*object, {5, 0}), "");
}

TEST_F(RemoteObjects, MayBeEmptyMissingOrOfUnknownSize) {
  HttpServer empty("");
  EXPECT_EQ(open(empty)->version().size, 0u);
  EXPECT_EQ(read(*open(empty), {0, 10}), "");
  HttpServer missing("", [](const Asked&, Reply) { return status(404); });
  EXPECT_EQ(error_of([&] { open(missing); })->kind(), Kind::kMissing);
  HttpServer unknown("12", [](const Asked&, Reply right) {
    right.headers = {{"Content-Range", "bytes 0-0/*"}};
    return right;
  });
  EXPECT_EQ(error_of([&] { open(unknown); })->kind(), Kind::kUnavailable);
}

TEST_F(RemoteObjects, HaveTheirFirstBytesOnceTheyWereLookedAt) {
  HttpServer server(random_object(100'000));
  const auto object = open(server);
  EXPECT_EQ(read(*object, {0, 10}), server.object().substr(0, 10));
  EXPECT_EQ(read(*object, {10, 4'086}), server.object().substr(10, 4'086));
  EXPECT_EQ(server.requests(), 1);
  EXPECT_EQ(read(*open(server), {4'000, 1'000}), server.object().substr(4'000, 1'000));
  EXPECT_EQ(server.requests(), 3);
}

TEST_F(RemoteObjects, ComeWholeWhereTheyAreSmall) {
  const std::string bytes = random_object(1'000);
  HttpServer parts(bytes);
  EXPECT_EQ(read(*open(parts), {0, 2'000}), bytes);
  EXPECT_EQ(parts.requests(), 1);
  HttpServer whole(bytes, [&](const Asked&, Reply) {
    return Reply{.headers = {{"ETag", HttpServer::kTag}}, .body = bytes};
  });
  EXPECT_EQ(read(*open(whole), {0, 2'000}), bytes);
  EXPECT_EQ(whole.requests(), 1);
}

TEST_F(RemoteObjects, AreLookedAtAgainWhereTheFirstBytesAreCutOff) {
  const std::string bytes = random_object(100'000);
  HttpServer server(bytes, [](const Asked& asked, Reply right) {
    if (asked.number == 1) right.sent = 1'000;
    if (asked.number == 1) right.end = Reply::End::kClose;
    return right;
  });
  EXPECT_EQ(read(*open(server), {0, 4'096}), bytes.substr(0, 4'096));
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(RemoteObjects, AreLookedAtAgainWhereTheServerSendsOtherBytes) {
  const std::string bytes = random_object(100'000);
  HttpServer server(bytes, [](const Asked& asked, Reply right) {
    if (asked.number > 1) return right;
    right.headers = {{"Content-Range", "bytes 0-0/100000"}, {"ETag", HttpServer::kTag}};
    right.status = 206;
    right.body.resize(1);
    return right;
  });
  EXPECT_EQ(read(*open(server), {0, 4'096}), bytes.substr(0, 4'096));
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(RemoteObjects, CountFirstBytesThatNobodyReads) {
  HttpServer server(random_object(100'000));
  const std::int64_t asked = ReadCounts::of_process().asked.value();
  const std::int64_t unread = ReadCounts::of_process().unread.value();
  read(*open(server), {0, 96});
  EXPECT_EQ(ReadCounts::of_process().asked.value() - asked, 4'096);
  EXPECT_EQ(ReadCounts::of_process().unread.value() - unread, 4'000);
}

TEST_F(RemoteObjects, HaveNotTheSizeThatAnAnswerToAnotherQuestionTells) {
  for (const char* range : {"bytes 5-9/300", "bytes 0-9/300", "bytes */300"}) {
    HttpServer server("12", [=](const Asked& asked, Reply right) {
      if (asked.number == 1) right.headers = {{"Content-Range", range}};
      return right;
    });
    EXPECT_EQ(open(server)->version().size, 2u) << range;
    EXPECT_EQ(server.requests(), 2);
  }
}

TEST_F(RemoteObjects, ReadWhatWasAnnouncedWithFewRequests) {
  HttpServer server(random_object(4'000'000));
  const auto object = open(server);
  std::vector<ByteRange> ranges;
  for (std::uint64_t offset = 0; offset < 4'000'000; offset += 1'000) ranges.push_back({offset, 1'000});
  object->will_read(ranges);
  for (const ByteRange& range : ranges)
    ASSERT_EQ(read(*object, range), server.object().substr(range.offset, range.size));
  EXPECT_LE(server.requests(), 2) << "one for the version";
}

TEST_F(RemoteObjects, GiveManyThreadsTheirBytesWhileTheServerFails) {
  HttpServer server(random_object(1'000'000), [](const Asked& asked, Reply right) {
    if (asked.number % 7 == 3) return status(503);
    if (asked.number % 5 == 4) {
      right.sent = right.body.size() / 2;
      right.end = Reply::End::kClose;
    }
    return right;
  });
  const auto object = open(server);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      const auto range = [&] { return ByteRange{random() % 1'000'000, 1 + random() % 30'000}; };
      for (int turn = 0; turn < 40; ++turn) {
        const std::vector<ByteRange> ranges{range(), range(), range()};
        if (turn % 2 == 0) object->will_read(ranges);
        for (const ByteRange& wanted : ranges)
          ASSERT_EQ(read(*object, wanted), server.object().substr(wanted.offset, wanted.size));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(server.requests(), 3 * 8 * 40 * 3);
}

TEST_F(RemoteObjects, AreNotKeptOnceAllHaveReadThem) {
  HttpServer server(random_object(1'000));
  for (int turn = 0; turn < 100; ++turn) {
    auto object = open(server);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] { EXPECT_EQ(read(*object, {0, 1'000}), server.object()); });
    for (std::thread& thread : threads) thread.join();
    const std::weak_ptr<RemoteObject> known = object;
    object.reset();
    ASSERT_TRUE(known.expired());
  }
}

TEST_F(RemoteObjects, KeepWhatComesAfterAnInterrupt) {
  std::promise<void> interrupted;
  const std::shared_future<void> waits = interrupted.get_future();
  HttpServer server(random_object(100'000), [waits](const Asked& asked, Reply right) {
    if (asked.number > 1) waits.wait_for(std::chrono::seconds(20));
    return right;
  });
  const auto object = open(server);
  std::string bytes(1'000, '\0');
  EXPECT_THROW(object->read(bytes, 50'000, [] { throw std::logic_error("interrupt"); }), std::logic_error);
  interrupted.set_value();
  EXPECT_EQ(read(*object, {50'000, 1'000}), server.object().substr(50'000, 1'000));
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(RemoteObjects, AreReadByAForkedChildWhileThreadsOfItsParentRead) {
  HttpServer server(random_object(1'000'000));
  const auto object = open(server);
  const std::vector<ByteRange> ahead{{0, 500'000}};
  object->will_read(ahead);
  std::atomic<bool> ends{false};
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 3; ++seed) {
    readers.emplace_back([&, seed] {
      for (std::mt19937_64 random(seed); !ends;) {
        const ByteRange range{random() % 900'000, 20'000};
        ASSERT_EQ(read(*object, range), server.object().substr(range.offset, range.size));
      }
    });
  }
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_TRUE(true_in_forked_child([&] {
      for (std::uint64_t offset = 0; offset < 600'000; offset += 50'000) {
        if (read(*object, {offset, 5'000}) != server.object().substr(offset, 5'000)) return false;
      }
      return true;
    }));
  }
  ends = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_F(RemoteObjects, AreNotAskedForWhatIsCountedOnly) {
  HttpServer server(random_object(20'000'000));
  const auto object = open(server);
  const int before = server.requests();
  const std::vector<ByteRange> rows{{0, 1000}, {1000, 1000}, {10'000'000, 9'000'000}};
  {
    const AnnouncedRequests announced;
    object->will_read(rows);
    EXPECT_EQ(announced.count(), 3u);
    EXPECT_EQ(announced.bytes(), 9'002'000u);
  }
  EXPECT_EQ(server.requests(), before);
  EXPECT_EQ(read(*object, rows[0]), server.object().substr(0, 1000));
}

TEST_F(RemoteObjects, CountWhatNobodyReads) {
  HttpServer server(random_object(1'000'000));
  const auto object = open(server);
  const std::int64_t asked = ReadCounts::of_process().asked.value();
  const std::int64_t unread = ReadCounts::of_process().unread.value();
  const std::vector<ByteRange> rows{{100'000, 50'000}, {160'000, 50'000}};
  object->will_read(rows);
  for (const ByteRange& row : rows) read(*object, row);
  EXPECT_EQ(ReadCounts::of_process().asked.value() - asked, 110'000);
  EXPECT_EQ(ReadCounts::of_process().unread.value() - unread, 10'000);
}

TEST_F(RemoteObjects, DropWhatOnlyAReaderThatEndsHasAskedFor) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  std::promise<void> ended;
  const std::shared_future<void> ends = ended.get_future();
  // Sends the first half at once, and the other when a reader has ended.
  HttpServer server(random_object(16 * kMiB), [ends](const Asked& asked, Reply right) {
    if (asked.range.offset >= 8 * kMiB) ends.wait_for(std::chrono::seconds(20));
    return right;
  });
  const auto object = open(server);
  const auto ask = [&](AheadClaim& claim, const ByteRange& range) {
    const AheadClaim::Scope asks(claim);
    object->will_read({&range, 1});
  };
  const auto asked_by_read = [&](const ByteRange& range) {
    const std::int64_t before = ReadCounts::of_process().asked.value();
    EXPECT_EQ(read(*object, range), server.object().substr(range.offset, range.size));
    return ReadCounts::of_process().asked.value() - before;
  };
  auto one = std::make_unique<AheadClaim>();
  AheadClaim other;
  ask(*one, {0, 16 * kMiB});
  ask(other, {15 * kMiB, 1'000});
  EXPECT_EQ(asked_by_read({kMiB / 2, 1'000}), 0);
  one.reset();
  ended.set_value();
  EXPECT_EQ(asked_by_read({15 * kMiB, 1'000}), 0) << "it is kept for the other reader";
  EXPECT_GT(asked_by_read({kMiB / 2 + 1'000, 1'000}), 0) << "it had come";
  EXPECT_GT(asked_by_read({7 * kMiB, 1'000}), 0);
}

TEST_F(RemoteObjects, AreNotKeptForAReaderThatEnds) {
  HttpServer server(random_object(1'000'000));
  auto object = open(server);
  {
    AheadClaim claim;
    const AheadClaim::Scope asks(claim);
    const std::vector<ByteRange> ahead{{0, 1'000'000}};
    object->will_read(ahead);
  }
  const std::weak_ptr<RemoteObject> known = object;
  object.reset();
  EXPECT_TRUE(known.expired());
}

TEST_F(RemoteObjects, EndNoReadWithTheReaderThatAskedInAdvance) {
  std::promise<void> asked_for;
  std::promise<void> ended;
  const std::shared_future<void> ends = ended.get_future();
  HttpServer server(random_object(1'000'000), [&asked_for, ends](const Asked& asked, Reply right) {
    if (asked.number == 2) asked_for.set_value();
    if (asked.number >= 2) ends.wait_for(std::chrono::seconds(20));
    return right;
  });
  const auto object = open(server);
  auto claim = std::make_unique<AheadClaim>();
  {
    const AheadClaim::Scope asks(*claim);
    const std::vector<ByteRange> ahead{{0, 1'000'000}};
    object->will_read(ahead);
  }
  asked_for.get_future().wait();
  std::promise<void> reading;
  auto reads = std::async(std::launch::async, [&] {
    std::string bytes(1'000, '\0');
    object->read(bytes, 50'000, [&, is_first = true, limit = time_limit()]() mutable {
      if (std::exchange(is_first, false)) reading.set_value();
      limit();
    });
    return bytes;
  });
  reading.get_future().wait();
  claim.reset();
  ended.set_value();
  EXPECT_EQ(reads.get(), server.object().substr(50'000, 1'000));
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(RemoteObjects, AreListedThoughAnAnswerIsCutOff) {
  const std::string list =
      "<ListBucketResult><Contents><Key>a</Key><Size>5</Size></Contents>"
      "<Contents><Key>b</Key><Size>6</Size></Contents></ListBucketResult>";
  HttpServer server("", [&](const Asked& asked, Reply) {
    Reply reply{.body = list};
    if (asked.number == 1) reply.sent = 80;
    if (asked.number == 1) reply.end = Reply::End::kClose;
    return reply;
  });
  const auto place = std::make_shared<Place>(
      make_store("s3://bucket/", {{"endpoint_url", server.origin()}, {"anonymous", "true"}}), "s3://bucket/",
      10 * kSecond);
  const auto objects = list_objects(place, "s3://bucket/", time_limit());
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[1].url, "s3://bucket/b");
  EXPECT_EQ(objects[1].size, 6u);
  EXPECT_EQ(server.requests(), 2);
}

}  // namespace
}  // namespace torch_distinput::http_testing
