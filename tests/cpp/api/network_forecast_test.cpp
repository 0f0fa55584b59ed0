// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/network_forecast.h"

#include <gtest/gtest.h>

#include "torch_distinput/dataset.h"

namespace torch_distinput {
namespace {

TEST(NetworkForecast, IsToldInALine) {
  const NetworkForecast forecast{.files = 24, .bytes = 12'600'000'000, .requests = 1'500'000};
  const std::vector<std::string> facts = facts_of(forecast);
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts[0], "network: 24 files, 12.6 GB; about 1500000 requests an epoch, $0.6 at $0.40 a million");
}

TEST(NetworkForecast, TellsWhatIsNotKnown) {
  NetworkForecast forecast{.files = 1, .bytes = 999, .requests = std::nullopt, .index_requests = 3};
  EXPECT_EQ(facts_of(forecast)[0], "network: 1 file, 999 B");
  EXPECT_EQ(
      facts_of(forecast)[1],
      "index: there is none yet, so that all bytes are read once before the first epoch, in about 3 "
      "requests, "
      "less than $0.01 at $0.40 a million; `python -m torch_distinput index URL` makes it once for all");
  forecast = {.files = 2000, .bytes = std::nullopt, .requests = 2000};
  EXPECT_EQ(facts_of(forecast)[0],
            "network: 2000 files, sizes not known; about 2000 requests an epoch, less than $0.01 at $0.40 a "
            "million");
}

TEST(NetworkForecast, NamesTheFileSystemOfTheUser) {
  const NetworkForecast forecast{.files = 3, .files_of_user = 3, .bytes = 1500};
  const std::vector<std::string> facts = facts_of(forecast);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(facts[0], "network: 3 files, 1.5 kB");
  EXPECT_NE(facts[1].find("one read at a time a thread"), std::string::npos);
}

TEST(NetworkForecast, IsEmptyWithoutObjects) {
  EXPECT_TRUE(facts_of({}).empty());
  EXPECT_TRUE(Dataset::range(4).batch(2).network_facts().empty());
  EXPECT_FALSE(Dataset::range(4).lacks_index());
}

}  // namespace
}  // namespace torch_distinput
