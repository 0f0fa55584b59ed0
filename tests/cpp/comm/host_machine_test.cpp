// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/host_machine.h"

#include <random>

#include <gtest/gtest.h>

#include "comm/host_member.h"
#include "comm/peer_text.h"
#include "support/in_memory_stores.h"
#include "support/mutations.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using MessageKind = HostMessage::Kind;

std::string sorted(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += text;
  std::sort(all.begin(), all.end());
  return all;
}

StoreAnswer answer_of(KeyValueStore& store, const StoreRequest& request) {
  switch (request.kind) {
    case StoreRequest::Kind::kSet:
      store.set(request.key, request.text);
      return {};
    case StoreRequest::Kind::kCompareSet:
      return {store.compare_set(request.key, request.text)};
    case StoreRequest::Kind::kAppend:
      store.append(request.key, request.text);
      return {};
    case StoreRequest::Kind::kAdd:
      return {{}, store.add(request.key, request.number)};
    case StoreRequest::Kind::kGet:
      if (auto texts = store.multi_get({request.key})) return {std::move(texts->front())};
      return {};
    case StoreRequest::Kind::kRemove:
      store.remove(request.key);
      return {};
  }
  return {};
}

/// A host of three ranks, which is the whole group: rank 1 leads ranks 0 and 2.
class HostTest : public ::testing::Test {
 protected:
  HostTest() {
    host.group().start();
    for (const int rank : {0, 2}) {
      EXPECT_TRUE(host.admit(rank));
      members.emplace(rank, HostMember(rank, 3, "node"));
      members.at(rank).receive({.kind = MessageKind::kWelcome, .number = 1});
    }
    while (!host.group().met()) {
      work();
      host.group().look();
    }
    work();
  }

  /// Makes requests, and delivers messages and entries, until none are left.
  void work() {
    for (bool busy = true; busy;) {
      busy = false;
      for (const auto& request : host.group().take_requests()) {
        const StoreAnswer answer = answer_of(*stores[1], request);
        if (request.then) request.then(answer);
        busy = true;
      }
      if (const auto key = host.group().awaits(); key && !host.group().met()) {
        if (const auto text = stores[1]->multi_get({*key})) {
          host.group().found(*key, text->front());
          busy = true;
        }
      }
      for (auto& entry : host.take_entries()) leaders.push_back(std::move(entry));
      for (const auto& [to, message] : host.take_messages())
        for (auto& [rank, member] : members)
          if (!to || to == rank) member.receive(HostMessage::decode(message.encode()));
      for (auto& [rank, member] : members) {
        for (const auto& message : member.take_messages()) {
          host.receive(rank, HostMessage::decode(message.encode()));
          busy = true;
        }
      }
    }
  }

  std::vector<KeyValueStorePtr> stores = in_memory_stores(3);
  HostMachine host{1, 3, 7, "node"};
  std::map<int, HostMember> members;
  std::vector<GroupMachine::Entry> leaders;
};

TEST_F(HostTest, JoinsWhatItsRanksSayAndTellsThemTheResult) {
  for (auto& [rank, member] : members) member.open("it/0"), member.contribute("it/0/a", std::to_string(rank));
  work();
  EXPECT_TRUE(leaders.empty());
  host.open("it/0");
  host.contribute("it/0/a", "1", sorted);
  work();
  ASSERT_EQ(leaders.size(), 1U);
  EXPECT_EQ(leaders.front().text, "012");
  for (auto& [rank, member] : members) EXPECT_EQ(member.take_entries().front().text, "012");
}

TEST_F(HostTest, TextsThatCannotBeJoinedAreAnErrorOnAllItsRanks) {
  for (auto& [rank, member] : members) member.open("it/0"), member.contribute("it/0/a", "x");
  host.open("it/0");
  host.contribute("it/0/a", "x",
                  [](const auto&) -> std::string { throw DistributedDatasetError("they differ"); });
  work();
  ASSERT_EQ(leaders.size(), 1U);
  EXPECT_TRUE(leaders.front().failed);
  EXPECT_EQ(members.at(0).take_entries().front().text, "they differ");
}

TEST_F(HostTest, ARankThatEndsFailsTheScopesThatItHadOpen) {
  host.open("it/0"), host.open("other/0");
  for (auto& [rank, member] : members) member.open("it/0"), member.open("other/0");
  members.at(2).end("other/0");
  members.at(2).beat("took step 3");
  work();
  host.gone(2, told_process_ended(17));
  work();
  ASSERT_EQ(leaders.size(), 1U);
  EXPECT_EQ(leaders.front().key, "it/0/failed");
  EXPECT_EQ(leaders.front().text, "rank 2 on host node ended unexpectedly (process 17); it took step 3");
}

TEST_F(HostTest, ARankThatHasEndedItsScopesMayGoWithoutAWord) {
  for (const char* const scope : {"it/0", "it/1"}) {
    host.open(scope);
    for (auto& [rank, member] : members) member.open(scope), member.end(scope);
  }
  work();
  host.gone(2, told_process_ended(0));
  work();
  EXPECT_TRUE(leaders.empty());
  host.open("it/2");  // to which it will not come
  work();
  ASSERT_EQ(leaders.size(), 1U);
  EXPECT_EQ(leaders.front().key, "it/2/failed");
}

TEST_F(HostTest, WhoTakesOverPostsWhatTheLeaderMayNotHaveRead) {
  HostMember& member = members.at(0);
  member.open("it/0"), member.open("it/1");
  member.post("it/0/a", "came back");
  work();
  member.take_entries();
  member.post("it/0/b", "on its way");
  member.post("it/1/a", "of a scope that ends");
  member.end("it/1");
  const auto machine = member.take_over("rank 1 has left");
  std::vector<std::string> posted;
  for (const auto& request : machine->group().take_requests()) {
    if (request.kind == StoreRequest::Kind::kCompareSet) posted.push_back(request.text);
  }
  ASSERT_EQ(posted.size(), 2U);
  EXPECT_NE(posted[0].find("on its way"), std::string::npos);
  EXPECT_NE(posted[1].find("it/0/failed"), std::string::npos);
}

TEST_F(HostTest, WhoTakesOverFailsWhatTheLeaderHadOpen) {
  host.open("it/0"), host.open("done/0"), host.end("done/0");
  for (auto& [rank, member] : members) member.open("it/0"), member.open("done/0");
  host.beat("took step 9");
  work();
  const auto next = members.at(0).take_over(members.at(0).told_ended(5));
  for (bool busy = true; busy;) {
    busy = false;
    for (const auto& request : next->group().take_requests()) {
      const StoreAnswer answer = answer_of(*stores[0], request);
      if (request.then) request.then(answer);
      busy = true;
    }
  }
  const auto entries = next->take_entries();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries.front().key, "it/0/failed");
  EXPECT_NE(entries.front().text.find("ended unexpectedly (process 5); it took step 9"), std::string::npos)
      << entries.front().text;
}

TEST_F(HostTest, ItsHeartbeatTellsWhatItsRanksDidAndWhomItWaitsFor) {
  host.open("it/0");
  for (auto& [rank, member] : members) member.open("it/0");
  members.at(0).contribute("it/0/a", "x");
  members.at(2).beat("took step 3");
  host.beat("took step 4");
  work();
  const Heartbeat heartbeat = host.heartbeat();
  EXPECT_TRUE(heartbeat.scopes.is_open("it/0"));
  EXPECT_EQ(heartbeat.activities, (std::map<int, std::string>{{1, "took step 4"}, {2, "took step 3"}}));
  RankRanges late = RankRanges::of(1);
  late.add(2);
  EXPECT_EQ(heartbeat.late, (std::map<std::string, RankRanges>{{"it/0/a", late}}));
}

TEST_F(HostTest, NobodyComesAfterTheGroupHasMet) { EXPECT_FALSE(host.admit(2)); }

TEST(HostMachine, ARankComesOnce) {
  HostMachine host(1, 3, 7);
  EXPECT_TRUE(host.admit(0));
  EXPECT_FALSE(host.admit(0));
  EXPECT_FALSE(host.admit(1));
}

TEST(HostMessage, DamagedTextsAreErrorsOrMessages) {
  std::mt19937_64 random(1);
  HostMessage message{
      .kind = MessageKind::kEntry, .key = "it/0/a", .text = "a 1 b", .number = 7, .size = 3, .flag = true};
  EXPECT_EQ(HostMessage::decode(message.encode()).encode(), message.encode());
  for (int i = 0; i < mutations_testing::kMutations; ++i) {
    const std::string bad = mutations_testing::mutated(message.encode(), random);
    try {
      EXPECT_LE(HostMessage::decode(bad).kind, MessageKind::kLeave);
    } catch (const PeerTextError&) {
      continue;
    }
  }
}

TEST(LateRanks, DamagedTextsAreErrorsOrRanks) {
  std::mt19937_64 random(1);
  const std::string good = text_of({{3, "took step 1"}, {5, ""}});
  EXPECT_EQ(text_of(late_ranks(good, 8)), good);
  for (int i = 0; i < mutations_testing::kMutations; ++i) {
    try {
      for (const auto& late : late_ranks(mutations_testing::mutated(good, random), 8))
        EXPECT_LT(late.rank, 8);
    } catch (const PeerTextError&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace torch_distinput
