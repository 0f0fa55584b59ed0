// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/group_link.h"

#include <future>
#include <random>
#include <set>
#include <stdexcept>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "comm/peer_text.h"
#include "comm/with_prefix.h"
#include "support/errors.h"
#include "support/met_links.h"
#include "support/mutations.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using namespace std::chrono_literals;

const WaitOptions kWaitOptions{"test", 60s};

std::string longest(const std::vector<std::string>& texts) {
  return *std::max_element(texts.begin(), texts.end(),
                           [](const auto& a, const auto& b) { return a.size() < b.size(); });
}

std::future<std::string> reduces(const GroupLinkPtr& link, const std::string& key, const std::string& text) {
  return std::async(std::launch::async, [=] { return link->reduce(key, text, longest, kWaitOptions); });
}

/// Links that have met and opened the scope `it/0`.
std::vector<GroupLinkPtr> opened(int size) {
  auto links = met_links(size);
  for (const auto& link : links) link->open("it/0");
  return links;
}

TEST(GroupLink, EveryRankGetsTheJoinOfAllTexts) {
  for (const int size : {1, 2, 5}) {
    const auto links = opened(size);
    for (int round = 0; round < 50; ++round) {
      const std::string key = "it/0/" + std::to_string(round);
      std::vector<std::future<std::string>> all;
      for (const auto& link : links)
        all.push_back(reduces(link, key, std::string(static_cast<std::size_t>(link->rank() + 1), 'x')));
      for (auto& one : all) EXPECT_EQ(one.get(), std::string(static_cast<std::size_t>(size), 'x'));
    }
  }
}

TEST(GroupLink, RanksOfAHostSpeakThroughOneOfThem) {
  for (const auto& [size, per_host] : {std::pair{2, 2}, {5, 2}, {6, 3}, {4, 4}}) {
    const auto links = met_links(in_memory_stores(size), hosts_of(size, per_host));
    std::set<std::int64_t> hosts;
    int speakers = 0;
    for (const auto& link : links) {
      hosts.insert(link->host());
      speakers += link->speaks() ? 1 : 0;
      link->open("it/0");
    }
    const int expected = (size + per_host - 1) / per_host;
    EXPECT_EQ(speakers, expected);
    EXPECT_EQ(std::ssize(hosts), expected);
    for (int round = 0; round < 20; ++round) {
      const std::string key = "it/0/" + std::to_string(round);
      std::vector<std::future<std::string>> all;
      for (const auto& link : links)
        all.push_back(reduces(link, key, std::string(static_cast<std::size_t>(link->rank() + 1), 'x')));
      for (auto& one : all) EXPECT_EQ(one.get(), std::string(static_cast<std::size_t>(size), 'x'));
    }
    links[0]->post("it/0/failed", "first");
    for (const auto& link : links)
      while (link->find("it/0/failed") != "first") std::this_thread::yield();
  }
}

TEST(GroupLink, AReductionNamesTheLateRankOfAnotherHost) {
  const auto links = met_links(in_memory_stores(6), hosts_of(6, 3));
  for (const auto& link : links) link->open("it/0");
  std::vector<std::future<std::string>> others;
  for (const int rank : {1, 2, 3, 5})
    others.push_back(reduces(links[static_cast<std::size_t>(rank)], "it/0/a", "2"));
  links[4]->beat("took step 3 of it/0 2 s ago", 1s);
  const auto refused = [&] {
    for (const auto& link : links) link->beat("", 1s);  // so that heartbeats say who is late
    return message_of<DistributedDatasetError>(
        [&] { links[0]->reduce("it/0/a", "0", longest, {"The handshake", 5ms}); });
  };
  const std::string wanted = "The handshake: rank 0 waited 0.005 s (`peer_timeout`) for rank 4.";
  while (refused().find(wanted) == std::string::npos) std::this_thread::yield();
  links[4]->reduce("it/0/a", "111", longest, kWaitOptions);
  for (auto& other : others) EXPECT_EQ(other.get(), "111");
}

TEST(GroupLink, RanksGoOnWhenTheOneThatSpokeForThemHasLeft) {
  for (const int per_host : {3, 6}) {
    auto links = met_links(in_memory_stores(6), hosts_of(6, per_host));
    for (const auto& link : links) link->open("it/0");
    const auto leader =
        std::find_if(links.begin(), links.end(), [](const auto& link) { return link->speaks(); });
    (*leader)->end("it/0");
    const int left = (*leader)->rank();
    leader->reset();
    std::erase(links, nullptr);
    links.front()->post("it/0/news", "x");
    for (const auto& link : links) {
      while (!link->find("it/0/news")) std::this_thread::yield();
      EXPECT_FALSE(link->find("it/0/failed"));
    }
    // It will not come to another scope.
    for (const auto& link : links) link->open("it/1");
    for (const auto& link : links) {
      while (!link->find("it/1/failed")) std::this_thread::yield();
      const std::string told = *link->find("it/1/failed");
      EXPECT_EQ(told.find("rank " + std::to_string(left) + " on host node"), 0U) << told;
      EXPECT_NE(told.find(" has left"), std::string::npos) << told;
    }
  }
}

TEST(GroupLink, AProcessThatAnEarlierStartLeftBehindIsPassedOver) {
  const HostIdentity host = new_host("node0");
  GroupLink left_behind(in_memory_stores(3)[1], host);  // waits for ranks 0 and 2 of its start
  const auto refused = [&] {
    return message_of<DistributedDatasetError>([&] { left_behind.meet({"The handshake", 5ms}); });
  };
  // Another group of other ranks cannot take it for one of theirs.
  const auto links = met_links(in_memory_stores(2), {host, host});
  EXPECT_EQ(links[0]->hosts(), 1);
  EXPECT_NE(refused().find("rank 1 waited 0.005 s"), std::string::npos);
}

TEST(GroupLink, APostReachesAllAndTheFirstOfAKeyCounts) {
  const auto links = opened(3);
  links[2]->post("it/0/failed", "first");
  for (const auto& link : links) {
    while (!link->find("it/0/failed")) std::this_thread::yield();
    link->post("it/0/failed", "later");
    link->post("it/0/after", "x");
  }
  for (const auto& link : links) {
    while (!link->find("it/0/after")) std::this_thread::yield();
    EXPECT_EQ(link->find("it/0/failed"), "first");
  }
}

TEST(GroupLink, NewsOfAScopeThatIsOpenedLaterIsKept) {
  const auto links = met_links(2);
  links[0]->open("it/0");
  links[0]->post("it/0/failed", "no disk");
  while (!links[0]->find("it/0/failed")) std::this_thread::yield();
  links[1]->open("it/0");
  while (!links[1]->find("it/0/failed")) std::this_thread::yield();
  EXPECT_EQ(links[1]->find("it/0/failed"), "no disk");
}

TEST(GroupLink, NewsOfAnEndedScopeIsDropped) {
  const auto links = met_links(2);
  for (const auto& link : links) link->open("it/0"), link->open("it/1");
  links[0]->post("it/0/left", "17");
  while (!links[1]->find("it/0/left")) std::this_thread::yield();
  links[1]->end("it/0");
  EXPECT_FALSE(links[1]->find("it/0/left"));
  links[0]->post("it/0/again", "18");
  links[0]->post("it/1/left", "19");
  while (!links[1]->find("it/1/left")) std::this_thread::yield();
  EXPECT_FALSE(links[1]->find("it/0/again"));
}

TEST(GroupLink, AWaitForTheOthersNamesThoseThatHaveNotCome) {
  const auto stores = in_memory_stores(4);
  GroupLink first(stores[0]);
  GroupLink third(stores[2]);
  const auto refused = [&] {
    return message_of<DistributedDatasetError>([&] { first.meet({"The handshake", 5ms}); });
  };
  const std::string wanted = "The handshake: rank 0 waited 0.005 s (`peer_timeout`) for ranks 1 and 3.";
  while (refused().find(wanted) == std::string::npos) std::this_thread::yield();
}

TEST(GroupLink, AReductionNamesTheRanksThatHaveNotContributed) {
  const auto links = opened(3);
  auto other = reduces(links[2], "it/0/a", "2");
  const auto refused = [&] {
    return message_of<DistributedDatasetError>(
        [&] { links[0]->reduce("it/0/a", "0", longest, {"The handshake", 5ms}); });
  };
  const std::string wanted = "The handshake: rank 0 waited 0.005 s (`peer_timeout`) for rank 1.";
  while (refused().find(wanted) == std::string::npos) std::this_thread::yield();
  links[1]->reduce("it/0/a", "111", longest, kWaitOptions);
  EXPECT_EQ(other.get(), "111");
}

TEST(GroupLink, AnInterruptEndsTheWaitAndTheNextCallContinues) {
  const auto links = opened(2);
  {
    const InterruptScope ctrl_c([] { throw std::out_of_range("Ctrl-C"); });
    EXPECT_THROW(links[0]->reduce("it/0/a", "first", longest, kWaitOptions), std::out_of_range);
  }
  auto other = reduces(links[1], "it/0/a", "b");
  // The others may have read the first text.
  EXPECT_EQ(links[0]->reduce("it/0/a", "another one", longest, kWaitOptions), "first");
  EXPECT_EQ(other.get(), "first");
}

TEST(GroupLink, EndsTheWaitWhenTheCheckThrows) {
  const auto links = opened(2);
  const WaitOptions checked{"test", 60s, [] { throw std::runtime_error("rank 1 died"); }};
  EXPECT_THROW(links[0]->reduce("it/0/a", "x", longest, checked), std::runtime_error);
}

/// Collects the warnings of this thread while it lives.
class Warnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

TEST(GroupLink, ALongWaitWarnsOnceOfMissingRanksAndWhatTheyDidLast) {
  const auto links = opened(2);
  WaitOptions wait_options{"The handshake", 300ms};
  wait_options.warn_after = 2ms;
  links[1]->beat("took step 10 31 s ago", 1s);
  while (!links[0]->store()->multi_get({"heartbeat/0"}) && !links[0]->store()->multi_get({"heartbeat/1"}))
    std::this_thread::yield();
  Warnings warnings;
  EXPECT_THROW(links[0]->reduce("it/0/a", "x", longest, wait_options), DistributedDatasetError);
  EXPECT_EQ(warnings.texts,
            (std::vector<std::string>{"The handshake: rank 0 has waited 0.002 s for rank 1. Rank 1 "
                                      "took step 10 31 s ago."}));
}

TEST(GroupLink, TextsThatCannotBeJoinedAreTheSameErrorOnAll) {
  const auto links = opened(2);
  const auto refusal = [](const GroupLinkPtr& link) {
    return message_of<DistributedDatasetError>([&] {
      link->reduce(
          "it/0/a", "x", [](const auto&) -> std::string { throw DistributedDatasetError("they differ"); },
          kWaitOptions);
    });
  };
  auto other = std::async(std::launch::async, [&] { return refusal(links[1]); });
  EXPECT_EQ(refusal(links[0]), "they differ");
  EXPECT_EQ(other.get(), "they differ");
}

TEST(GroupLink, NothingIsLeftWhenAllHaveGone) {
  const auto stores = in_memory_stores(3);
  {
    auto links = met_links(stores);
    for (const auto& link : links) link->open("it/0");
    std::vector<std::future<std::string>> all;
    for (const auto& link : links) all.push_back(reduces(link, "it/0/a", "x"));
    for (auto& one : all) one.get();
    for (const auto& link : links) link->end("it/0");
  }
  EXPECT_EQ(keys_of(*stores[0]), 0U);
}

TEST(TextsOfAll, AreByRankInAnyOrder) {
  const std::string joined = join_texts({text_of_one(2, "a 9"), text_of_one(0, ""), text_of_one(1, "b")});
  EXPECT_EQ(texts_of_all(joined, 3, "x"), (std::vector<std::string>{"", "b", "a 9"}));
  EXPECT_THROW(texts_of_all(joined, 2, "x"), PeerTextError);
  EXPECT_THROW(texts_of_all(joined, 4, "x"), PeerTextError);
  EXPECT_THROW(texts_of_all(joined + text_of_one(1, "b"), 3, "x"), PeerTextError);
}

TEST(TextsOfAll, DamagedTextsAreErrorsOrTextsOfTheRanks) {
  std::mt19937_64 random(1);
  const std::string good = join_texts({text_of_one(0, "a 1 b"), text_of_one(1, "1 2 3 4 5 6 ")});
  for (int i = 0; i < mutations_testing::kMutations; ++i) {
    const std::string bad = mutations_testing::mutated(good, random);
    const std::vector<char> exact(bad.begin(), bad.end());  // so that a sanitizer sees reads beyond the end
    try {
      EXPECT_EQ(texts_of_all({exact.data(), exact.size()}, 2, "x").size(), 2U);
    } catch (const PeerTextError&) {
      continue;
    }
  }
}

TEST(WithPrefix, KeepsKeysOfDifferentPrefixesApart) {
  const auto ranks = in_memory_stores(2);
  const auto here = with_prefix(ranks[0], "a/");
  const auto there = with_prefix(ranks[1], "a/");
  const auto other = with_prefix(ranks[1], "b/");
  EXPECT_EQ(there->rank(), 1);
  EXPECT_EQ(there->size(), 2);
  here->set("key", "x");
  EXPECT_EQ(there->multi_get({"key"}), std::vector<std::string>{"x"});
  EXPECT_EQ(there->await("key", 1s), "x");
  EXPECT_EQ(ranks[0]->multi_get({"a/key"}), std::vector<std::string>{"x"});
  EXPECT_FALSE(other->multi_get({"key"}));
  EXPECT_EQ(other->compare_set("key", "y"), "y");
  EXPECT_EQ(here->compare_set("key", "z"), "x");
  EXPECT_EQ(here->add("count", 2), 2);
  EXPECT_EQ(other->add("count", 3), 3);
  here->remove("key");
  EXPECT_FALSE(there->multi_get({"key"}));
  EXPECT_TRUE(other->multi_get({"key"}));
}

}  // namespace
}  // namespace torch_distinput
