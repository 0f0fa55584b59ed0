// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/ahead_ledger.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

constexpr std::uint64_t kQuarter = AheadLedger::kMostBytes / 4;

/// Tells its ledger that what it was told to forget is gone, as objects do.
class Owner final : public AheadBytes {
 public:
  explicit Owner(AheadLedger& ledger) : ledger_(ledger) {}
  void forget(FetchId fetch) override {
    ledger_.remove(fetch);
    const std::lock_guard lock(mutex_);
    forgotten_.push_back(fetch);
  }
  void release(ClaimId claim) override {
    const std::lock_guard lock(mutex_);
    released_.push_back(claim);
  }
  std::vector<ClaimId> released() const {
    const std::lock_guard lock(mutex_);
    return released_;
  }
  std::vector<FetchId> forgotten() const {
    const std::lock_guard lock(mutex_);
    return forgotten_;
  }

 private:
  AheadLedger& ledger_;
  mutable std::mutex mutex_;
  std::vector<FetchId> forgotten_;
  std::vector<ClaimId> released_;
};

void add(AheadLedger& ledger, FetchId fetch, std::shared_ptr<AheadBytes> owner, std::uint64_t bytes) {
  std::vector<AheadLedger::Entry> excess;
  ledger.add({fetch, std::move(owner), bytes}, excess);
  for (const AheadLedger::Entry& entry : excess) entry.owner->forget(entry.fetch);
}

TEST(AheadLedger, ForgetsTheOldestWhereThereAreTooMany) {
  AheadLedger ledger;
  const auto owner = std::make_shared<Owner>(ledger);
  for (FetchId fetch = 1; fetch <= 4; ++fetch) add(ledger, fetch, owner, kQuarter);
  EXPECT_TRUE(owner->forgotten().empty());
  ledger.remove(1);
  add(ledger, 5, owner, kQuarter);
  EXPECT_TRUE(owner->forgotten().empty());
  add(ledger, 6, owner, kQuarter + 1);
  EXPECT_EQ(owner->forgotten(), (std::vector<FetchId>{2, 3}));
}

TEST(AheadLedger, KeepsTheLatestHoweverLargeItIs) {
  AheadLedger ledger;
  const auto owner = std::make_shared<Owner>(ledger);
  add(ledger, 1, owner, 1);
  add(ledger, 2, owner, 2 * AheadLedger::kMostBytes);
  EXPECT_EQ(owner->forgotten(), (std::vector<FetchId>{1}));
  add(ledger, 3, owner, 1);
  EXPECT_EQ(owner->forgotten(), (std::vector<FetchId>{1, 2}));
}

TEST(AheadLedger, KeepsOwnersAliveUntilTheirBytesAreGone) {
  AheadLedger ledger;
  auto owner = std::make_shared<Owner>(ledger);
  const std::weak_ptr<Owner> known = owner;
  add(ledger, 1, std::move(owner), 1);
  EXPECT_FALSE(known.expired());
  ledger.remove(2);
  EXPECT_FALSE(known.expired());
  ledger.remove(1);
  EXPECT_TRUE(known.expired());
}

TEST(AheadLedger, TellsEachOwnerOnceWhatIsReleased) {
  AheadLedger ledger;
  const auto one = std::make_shared<Owner>(ledger);
  const auto other = std::make_shared<Owner>(ledger);
  const auto read = std::make_shared<Owner>(ledger);
  add(ledger, 1, one, 1);
  add(ledger, 2, other, 1);
  add(ledger, 3, one, 1);
  add(ledger, 4, read, 1);
  ledger.remove(4);
  ledger.release(7);
  EXPECT_EQ(one->released(), std::vector<ClaimId>{7});
  EXPECT_EQ(other->released(), std::vector<ClaimId>{7});
  EXPECT_TRUE(read->released().empty());
}

TEST(AheadLedger, HoldsNoMoreThanItMayWithManyThreads) {
  AheadLedger ledger;
  const auto owner = std::make_shared<Owner>(ledger);
  std::atomic<FetchId> next{1};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 1000; ++turn) {
        const FetchId fetch = next++;
        add(ledger, fetch, owner, kQuarter);
        if (fetch % 3 == 0) ledger.remove(fetch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::size_t forgotten = owner->forgotten().size();
  EXPECT_LE(forgotten, 4000u);
  EXPECT_GE(forgotten, 4000u - 4000u / 3 - 5) << "all but those that were removed and the last four";
}

}  // namespace
}  // namespace torch_distinput
