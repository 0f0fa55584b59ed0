// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "support/in_memory_stores.h"

namespace torch_distinput {
namespace {

using Names = std::vector<std::optional<std::string>>;

/// Lets the ranks take steps in a random order, at most `turns` in all.
Names meet(const std::vector<KeyValueStorePtr>& ranks, std::mt19937& random, int turns = 1'000'000) {
  std::vector<Rendezvous> rendezvous_of_all(ranks.begin(), ranks.end());
  Names names(ranks.size());
  const auto waits = [](const auto& name) { return !name; };
  for (; turns > 0 && std::any_of(names.begin(), names.end(), waits); --turns) {
    const std::size_t rank = random() % ranks.size();
    if (!names[rank]) names[rank] = rendezvous_of_all[rank].step();
  }
  return names;
}

TEST(Rendezvous, AllRanksGetOneNameInAnyOrderOfArrival) {
  std::mt19937 random(5);
  for (const int size : {2, 3, 8}) {
    const Names names = meet(in_memory_stores(size), random);
    EXPECT_TRUE(names.front());
    EXPECT_EQ(names, Names(names.size(), names.front()));
  }
}

TEST(Rendezvous, EarlierLivesThatEndedAtAnyPointHaveNoEffect) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    const auto ranks = in_memory_stores(3);
    std::vector<std::string> earlier;
    for (int life = 0; life < 3; ++life)
      for (const auto& name : meet(ranks, random, static_cast<int>(random() % 14)))
        if (name) earlier.push_back(*name);
    const Names names = meet(ranks, random);
    EXPECT_EQ(names, Names(3, names.front()));
    EXPECT_EQ(std::count(earlier.begin(), earlier.end(), *names.front()), 0);
  }
}

TEST(Rendezvous, NamesTheRanksThatHaveNotCome) {
  const auto ranks = in_memory_stores(3);
  Rendezvous first(ranks[0]);
  Rendezvous second(ranks[1]);
  first.step();
  EXPECT_EQ(first.missing(), (std::vector<int>{1, 2}));
  second.step();
  EXPECT_EQ(first.missing(), std::vector<int>{2});
  EXPECT_EQ(second.missing(), std::vector<int>{2});
}

TEST(Rendezvous, ARankWithTextsOfAnEarlierLifeIsMissing) {
  const auto ranks = in_memory_stores(2);
  {
    Rendezvous first(ranks[0]);
    Rendezvous second(ranks[1]);
    second.step();
    first.step();
    second.step();
  }
  Rendezvous first(ranks[0]);
  EXPECT_FALSE(first.step());
  EXPECT_EQ(first.missing(), std::vector<int>{1});
}

TEST(Rendezvous, RemovesItsTextsWhenAllHaveAgreed) {
  std::mt19937 random(7);
  const auto ranks = in_memory_stores(2);
  const Names names = meet(ranks, random);
  for (const std::string key : {"number/0", "number/1", "name/0", "name/1"})
    EXPECT_FALSE(ranks[0]->multi_get({"rendezvous/" + key})) << key;
  EXPECT_EQ(ranks[0]->add("rendezvous/" + *names.front(), 0), 0);
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
