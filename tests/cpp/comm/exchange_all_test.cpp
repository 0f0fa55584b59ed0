// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/exchange_all.h"

#include <future>
#include <stdexcept>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/in_memory_stores.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

const WaitOptions kExchangeOptions{"test", std::chrono::seconds(60)};

TEST(ExchangeAll, GivesEveryRankTheTextsOfAll) {
  const auto ranks = in_memory_stores(4);
  std::vector<std::future<std::vector<std::string>>> waits;
  for (const auto& rank : ranks) {
    waits.push_back(std::async(std::launch::async, [rank] {
      return exchange_all(*rank, "open", "I am " + std::to_string(rank->rank()), kExchangeOptions);
    }));
  }
  for (auto& wait : waits) {
    EXPECT_EQ(wait.get(), (std::vector<std::string>{"I am 0", "I am 1", "I am 2", "I am 3"}));
  }
}

TEST(ExchangeAll, RemovesTheTextsWhenAllHaveRead) {
  const auto ranks = in_memory_stores(2);
  auto other =
      std::async(std::launch::async, [&] { exchange_all(*ranks[1], "open", "b", kExchangeOptions); });
  exchange_all(*ranks[0], "open", "a", kExchangeOptions);
  other.get();
  EXPECT_FALSE(ranks[0]->multi_get({"open/0"}));
  EXPECT_FALSE(ranks[0]->multi_get({"open/1"}));
  EXPECT_EQ(ranks[0]->add("open/readers", 0), 0);
}

TEST(ExchangeAll, RemovesTheTextsWhenTheOthersGaveUp) {
  const auto ranks = in_memory_stores(3);
  EXPECT_THROW(exchange_all(*ranks[0], "open", "a", {"The handshake", std::chrono::milliseconds(2)}),
               DistributedDatasetError);
  give_up(*ranks[0], "open");
  give_up(*ranks[2], "open");  // without a text of its own
  EXPECT_TRUE(ranks[1]->multi_get({"open/0"}));
  give_up(*ranks[1], "open");
  EXPECT_FALSE(ranks[1]->multi_get({"open/0"}));
  EXPECT_EQ(ranks[1]->add("open/readers", 0), 0);
}

TEST(ExchangeAll, ARepeatedCallKeepsTheTextThatWasSetFirst) {
  const auto ranks = in_memory_stores(2);
  const WaitOptions broken_off{"test", std::chrono::seconds(60), [] { throw std::runtime_error("not now"); }};
  EXPECT_THROW(exchange_all(*ranks[0], "open", "first", broken_off), std::runtime_error);
  ranks[1]->set("open/1", "b");
  // The other ranks may have read the first text.
  EXPECT_EQ(exchange_all(*ranks[0], "open", "second", kExchangeOptions),
            (std::vector<std::string>{"first", "b"}));
}

TEST(ExchangeAll, NamesTheRanksThatNeverCame) {
  const auto ranks = in_memory_stores(4);
  ranks[2]->set("open/2", "here");
  try {
    exchange_all(*ranks[0], "open", "a", {"The handshake", std::chrono::milliseconds(5)});
    FAIL() << "nothing was thrown";
  } catch (const DistributedDatasetError& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find("The handshake: rank 0 waited 0.005 s (`peer_timeout`) for ranks 1 and 3."),
              std::string::npos)
        << text;
  }
}

/// Collects the warnings of this thread while it lives.
class Warnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

TEST(ExchangeAll, ALongWaitWarnsOnceOfMissingRanksAndWhatTheyDidLast) {
  const auto ranks = in_memory_stores(3);
  ranks[2]->set("open/2", "here");
  WaitOptions wait_options{"The handshake", std::chrono::milliseconds(20)};
  wait_options.warn_after = std::chrono::milliseconds(2);
  wait_options.activity = [](int rank) { return "took step " + std::to_string(10 * rank) + " 31 s ago"; };
  Warnings warnings;
  EXPECT_THROW(exchange_all(*ranks[0], "open", "a", wait_options), DistributedDatasetError);
  EXPECT_EQ(warnings.texts,
            (std::vector<std::string>{"The handshake: rank 0 has waited 0.002 s for rank 1. Rank 1 "
                                      "took step 10 31 s ago."}));
}

TEST(ExchangeAll, AnInterruptEndsTheWaitAndWaitingAgainWorks) {
  const auto ranks = in_memory_stores(2);
  {
    const InterruptScope interrupt([] { throw std::runtime_error("Ctrl-C"); });
    EXPECT_THROW(exchange_all(*ranks[0], "open", "a", kExchangeOptions), std::runtime_error);
  }
  ranks[1]->set("open/1", "b");
  EXPECT_EQ(exchange_all(*ranks[0], "open", "a", kExchangeOptions), (std::vector<std::string>{"a", "b"}));
}

TEST(ExchangeAll, EndsWhenTheCheckThrows) {
  const auto ranks = in_memory_stores(2);
  const WaitOptions checked{"test", std::chrono::seconds(60),
                            [] { throw std::runtime_error("rank 1 died"); }};
  EXPECT_THROW(exchange_all(*ranks[0], "open", "a", checked), std::runtime_error);
}

TEST(NameRanks, ReadsAsASentence) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({0, 2}), "ranks 0 and 2");
  EXPECT_EQ(name_ranks({0, 2, 5}), "ranks 0, 2 and 5");
}

}  // namespace
}  // namespace torch_distinput
