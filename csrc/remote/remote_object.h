// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/of_process.h"
#include "base/polling.h"
#include "remote/ahead_ledger.h"
#include "remote/byte_set.h"
#include "remote/engine.h"
#include "remote/object_error.h"
#include "remote/open_object.h"
#include "remote/place.h"
#include "remote/range_plan.h"
#include "remote/range_transfer.h"
#include "remote/text_transfer.h"

namespace torch_distinput {

/// Bytes that a sequential reader of an object asks for in advance.
inline constexpr std::uint64_t kRemoteAhead = std::uint64_t{32} << 20;

/// One version of an object, with the bytes of it that were asked for and not read yet. Safe from any thread.
/// In a forked child it asks anew for what its parent had asked for.
class RemoteObject final : public OpenObject,
                           public AheadBytes,
                           public std::enable_shared_from_this<RemoteObject> {
 public:
  /// REQUIRES: `version` is one that the object had, and `head` are the first bytes of that, if any.
  RemoteObject(PlacePtr place, ObjectVersion version, std::string_view head = {});
  ~RemoteObject() override;

  const std::string& url() const noexcept override { return place_->url(); }
  const ObjectVersion& version() const noexcept override { return version_; }
  /// Ranges near to each other become one request, long ones several. They are asked for by this thread's
  /// AheadClaim. What is never read makes room for others in the end.
  void will_read(std::span<const ByteRange> ranges) override;
  /// Asks for bytes that `arrival` wants, which is told of all that comes, and now of what has come before.
  void will_take(std::span<const ByteRange> ranges);
  /// This thread's AheadClaim does not want these bytes any more: it has taken them.
  void let_go(const ByteRange& range);
  /// Sets what is told of each transfer that is over. REQUIRES: nothing was asked for yet.
  void set_arrival(RangeTransfer::Arrival arrival) { arrival_ = std::move(arrival); }
  /// Bytes that come after `poll` has thrown are kept.
  std::size_t read(std::span<char> into, std::uint64_t offset, const Poll& poll) override;
  void forget(FetchId fetch) override;
  void release(ClaimId claim) override;

 private:
  /// Bytes that were asked for.
  struct Piece {
    std::shared_ptr<RangeTransfer> transfer;
    FetchId fetch = 0;                  ///< 0: it came when the object was looked at
    std::map<ClaimId, ByteSet> unread;  ///< bytes that somebody asked for and nobody has read yet
    int readers = 0;                    ///< that wait for it or copy
    std::uint64_t read = 0;             ///< bytes that were copied
  };
  using PiecePtr = std::shared_ptr<Piece>;
  using Pieces = std::map<std::uint64_t, PiecePtr>;
  /// The pieces of one process by their offsets. They do not overlap.
  struct Window {
    std::mutex mutex;
    Pieces pieces;
  };

  std::vector<std::shared_ptr<RangeTransfer>> announce(std::span<const ByteRange> ranges);
  std::vector<ByteRange> missing(const Window& window, const ByteRange& range) const;
  void ask(Window& window, const ByteRange& range, std::vector<AheadLedger::Entry>& excess);
  static void drop(const Piece& piece) noexcept;
  static Pieces::iterator first_piece(Window& window, const ByteRange& range);
  static void want(Window& window, const ByteRange& range);
  static void drop_failed(Window& window, const ByteRange& range, std::vector<FetchId>& gone);
  std::vector<PiecePtr> pieces_for(const ByteRange& range);
  void leave(const std::vector<PiecePtr>& pieces, const ByteRange& range, bool was_read);
  void read_once(std::span<char> into, std::uint64_t offset, const Poll& poll);
  ObjectError naming_versions(const ObjectError& error, const Poll& poll) const;
  RangeRules rules() const;

  PlacePtr place_;
  ObjectVersion version_;
  RangeTransfer::Arrival arrival_;
  OfProcess<Window> window_;
};

/// Looks at the object at `place`. Throws ObjectError. Calls `poll` while it waits.
ObjectLook look_at(const PlacePtr& place, const Poll& poll);

/// Runs `call`; where it fails because credentials have expired, gets others and runs it again. What was
/// asked for before may still fail with the old ones, so that it may take several turns.
template <class Call>
auto with_fresh_credentials(const ObjectStore& store, Call call) {
  constexpr int kTurns = 3;
  for (int turn = 1; turn < kTurns; ++turn) {
    try {
      return call();
    } catch (const ObjectError& error) {
      if (error.kind() != ObjectError::Kind::kExpired || !store.refresh()) throw;
    }
  }
  return call();
}

}  // namespace torch_distinput
