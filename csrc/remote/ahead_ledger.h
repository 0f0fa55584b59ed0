// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "remote/fetch_schedule.h"

namespace torch_distinput {

/// Of an AheadClaim; 0: nobody's, which does not end.
using ClaimId = std::uint64_t;

/// Whose bytes are in the ledger.
class AheadBytes {
 public:
  virtual ~AheadBytes() = default;
  /// Drops the bytes that `fetch` gets, unless somebody waits for them.
  virtual void forget(FetchId fetch) = 0;
  /// Drops the bytes that nobody but `claim` has asked for, unless somebody waits for them.
  virtual void release(ClaimId claim) = 0;
};

/// The bytes of objects that this process has asked for in advance and not read, and which were asked for
/// first: those make room where it is too many. Keeps their owners alive. Safe from any thread.
class AheadLedger {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

  /// That of this process; a forked child has its own.
  static AheadLedger& of_process();

  /// The bytes that `owner` gets with `fetch`.
  struct Entry {
    FetchId fetch;
    std::shared_ptr<AheadBytes> owner;
    std::uint64_t bytes;
  };
  /// Adds `entry`, and to `excess` the oldest ones where there are too many: the caller lets their owners
  /// forget them, without a lock that `forget` takes.
  void add(Entry entry, std::vector<Entry>& excess);
  /// They were read, or forgotten.
  void remove(FetchId fetch);
  /// Lets all owners `release` it.
  void release(ClaimId claim);

 private:
  std::mutex mutex_;
  std::list<Entry> entries_;  ///< the oldest first
  std::unordered_map<FetchId, std::list<Entry>::iterator> places_;
  std::uint64_t bytes_ = 0;
};

}  // namespace torch_distinput
