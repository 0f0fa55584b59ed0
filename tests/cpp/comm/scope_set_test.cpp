// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/scope_set.h"

#include <gtest/gtest.h>

#include "support/mutations.h"

namespace torch_distinput {
namespace {

std::string encoded(const ScopeSet& scopes) {
  PeerTextWriter writer;
  scopes.encode(writer);
  return writer.take();
}

TEST(ScopeSet, AScopeHasEndedOnceItOrALaterOneOfItsNameWasOpened) {
  ScopeSet scopes;
  EXPECT_FALSE(scopes.has_ended("a/0"));
  scopes.open("a/2");
  EXPECT_TRUE(scopes.has_ended("a/1"));
  EXPECT_FALSE(scopes.has_ended("a/2"));
  EXPECT_FALSE(scopes.has_ended("a/3"));
  EXPECT_FALSE(scopes.has_ended("b/1"));
  EXPECT_TRUE(scopes.end("a/2"));
  EXPECT_FALSE(scopes.end("a/2"));
  EXPECT_TRUE(scopes.has_ended("a/2"));
  EXPECT_FALSE(scopes.has_ended("a/3"));
}

TEST(ScopeSet, SeveralProcessesHaveEndedWhatAllHave) {
  ScopeSet one, other;
  for (const char* const scope : {"a/0", "a/1", "b/0"}) one.open(scope);
  for (const char* const scope : {"a/0", "c/0"}) other.open(scope);
  for (const char* const scope : {"a/0", "a/1", "b/0"}) one.end(scope);
  const ScopeSet all = ScopeSet::of_all({one, other});
  EXPECT_TRUE(all.is_open("a/0"));
  EXPECT_FALSE(all.has_ended("a/0"));
  EXPECT_FALSE(all.has_ended("a/1"));  // the other has still to open it
  EXPECT_FALSE(all.has_ended("b/0"));
  EXPECT_TRUE(all.is_open("c/0"));
  other.end("a/0");
  EXPECT_TRUE(ScopeSet::of_all({one, other}).has_ended("a/0"));
  EXPECT_FALSE(ScopeSet::of_all({}).has_ended("a/0"));
}

TEST(ScopeSet, TravelsAsText) {
  ScopeSet one, other;
  for (const char* const scope : {"a/4", "b/0"}) one.open(scope), other.open(scope);
  one.end("b/0");
  const ScopeSet all = ScopeSet::of_all({one, other});
  const std::string text = encoded(all);
  PeerTextReader reader(text, "x");
  const ScopeSet read = ScopeSet::decode(reader);
  EXPECT_TRUE(reader.ended());
  EXPECT_EQ(encoded(read), text);
  EXPECT_TRUE(read.is_open("b/0"));
  EXPECT_TRUE(read.has_ended("a/3"));
}

TEST(ScopeSet, DamagedTextsAreErrorsOrSets) {
  std::mt19937_64 random(1);
  ScopeSet scopes;
  for (const char* const scope : {"a/4", "b/0", "strategy/0/dataset/1/7"}) scopes.open(scope);
  const std::string good = encoded(scopes);
  for (int i = 0; i < mutations_testing::kMutations; ++i) {
    const std::string bad = mutations_testing::mutated(good, random);
    const std::vector<char> exact(bad.begin(), bad.end());  // so that a sanitizer sees reads beyond the end
    PeerTextReader reader({exact.data(), exact.size()}, "x");
    try {
      ScopeSet::decode(reader).has_ended("a/4");
    } catch (const PeerTextError&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace torch_distinput
