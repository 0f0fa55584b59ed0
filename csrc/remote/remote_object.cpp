// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/remote_object.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/slow_reads.h"
#include "base/stage.h"
#include "remote/ahead_claim.h"
#include "remote/announced_requests.h"
#include "remote/read_counts.h"

namespace torch_distinput {
namespace {

/// So much is read at least where nobody has told what will be: what is asked for next is often near.
constexpr std::uint64_t kLeastRead = std::uint64_t{64} << 10;
constexpr std::uint64_t kLeastGap = std::uint64_t{16} << 10;
constexpr std::uint64_t kMostGap = std::uint64_t{512} << 10;
/// A request brings bytes for so long at most, where its answer does not take longer: several slow
/// connections bring neighbours sooner than one.
constexpr double kRequestSeconds = 0.25;
constexpr std::uint64_t kLeastRequest = std::uint64_t{1} << 20;

/// The bytes that two ranges share.
ByteRange shared(const ByteRange& a, const ByteRange& b) {
  const std::uint64_t begin = std::max(a.offset, b.offset);
  const std::uint64_t end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

SigningTime signing_time() { return std::chrono::system_clock::now(); }

}  // namespace

RemoteObject::RemoteObject(PlacePtr place, ObjectVersion version, std::string_view head)
    : place_(std::move(place)), version_(std::move(version)) {
  if (head.empty()) return;
  // Whoever reads it first finds it. The ledger does not know of it: it would keep this object.
  const ByteRange range{0, head.size()};
  auto piece = std::make_shared<Piece>();
  piece->transfer =
      std::make_shared<RangeTransfer>(place_, version_, range, host_pool()->acquire(head.size()));
  piece->transfer->take(head);
  piece->transfer->finish(nullptr);
  piece->unread[0].add(range);
  ReadCounts::of_process().asked.add(static_cast<std::int64_t>(range.size));
  window_.get().pieces.emplace(0, std::move(piece));
}

RemoteObject::~RemoteObject() {
  const Window* const window = window_.known();
  if (window == nullptr) return;
  for (const auto& [offset, piece] : window->pieces) drop(*piece);
}

void RemoteObject::will_read(std::span<const ByteRange> ranges) { announce(ranges); }

void RemoteObject::will_take(std::span<const ByteRange> ranges) {
  for (const auto& transfer : announce(ranges)) arrival_(transfer);
}

/// Asks for what has not been asked for. Returns the transfers of the ranges that were over before.
std::vector<std::shared_ptr<RangeTransfer>> RemoteObject::announce(std::span<const ByteRange> all) {
  // The size of an object is the word of its server.
  const std::vector<ByteRange> ranges = first_bytes(all, AheadLedger::kMostBytes);
  const std::vector<ByteRange> wanted = plan_requests(ranges, rules());
  std::vector<std::shared_ptr<RangeTransfer>> over;
  if (AnnouncedRequests* const counted = AnnouncedRequests::current()) {
    counted->add(wanted);
    return over;
  }
  place_->store().prepare(signing_time());
  std::vector<AheadLedger::Entry> excess;
  Window& window = window_.get();
  {
    const std::lock_guard lock(window.mutex);
    for (const ByteRange& range : wanted) {
      for (const ByteRange& part : missing(window, shared(range, {0, version_.size})))
        ask(window, part, excess);
    }
    for (const ByteRange& range : ranges) {
      want(window, range);
      for (auto next = first_piece(window, range); next != window.pieces.end() && next->first < range.end();
           ++next) {
        if (next->second->transfer->is_over()) over.push_back(next->second->transfer);
      }
    }
  }
  for (const auto& [fetch, owner, bytes] : excess) owner->forget(fetch);
  return over;
}

void RemoteObject::let_go(const ByteRange& range) {
  std::vector<FetchId> gone;
  Window& window = window_.get();
  {
    const std::lock_guard lock(window.mutex);
    for (auto next = first_piece(window, range); next != window.pieces.end() && next->first < range.end();) {
      const auto found = next++;
      Piece& piece = *found->second;
      const auto wanted = piece.unread.find(AheadClaim::current());
      if (wanted == piece.unread.end()) continue;
      const ByteRange part = shared(piece.transfer->range(), range);
      wanted->second.remove(part);
      piece.read += part.size;
      if (wanted->second.empty()) piece.unread.erase(wanted);
      if (!piece.unread.empty() || piece.readers > 0) continue;
      gone.push_back(piece.fetch);
      drop(piece);
      window.pieces.erase(found);
    }
  }
  for (const FetchId fetch : gone) AheadLedger::of_process().remove(fetch);
}

std::size_t RemoteObject::read(std::span<char> into, std::uint64_t offset, const Poll& poll) {
  if (offset >= version_.size) return 0;
  into = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), version_.size - offset)));
  if (into.empty()) return 0;
  const NetworkWait waits;
  place_->store().prepare(signing_time());
  try {
    with_fresh_credentials(place_->store(), [&] { read_once(into, offset, poll); });
  } catch (const ObjectError& error) {
    // The store says that it is another version, but not which.
    if (error.kind() != ObjectError::Kind::kChanged || error.details().status == 0) throw;
    throw naming_versions(error, poll);
  }
  return into.size();
}

/// `error` with the version that there is now, which the store is asked for.
ObjectError RemoteObject::naming_versions(const ObjectError& error, const Poll& poll) const {
  try {
    return {error.kind(), replaced_text(version_, look_at(place_, poll).version), error.details()};
  } catch (const ObjectError&) {
    return error;
  }
}

void RemoteObject::read_once(std::span<char> into, std::uint64_t offset, const Poll& poll) {
  const ByteRange range{offset, into.size()};
  const std::vector<PiecePtr> pieces = pieces_for(range);
  try {
    for (const PiecePtr& piece : pieces) {
      const std::span<const char> bytes = piece->transfer->wait(poll);
      const ByteRange part = shared(piece->transfer->range(), range);
      std::memcpy(into.data() + (part.offset - offset),
                  bytes.data() + (part.offset - piece->transfer->range().offset),
                  static_cast<std::size_t>(part.size));
    }
  } catch (...) {
    leave(pieces, range, /*was_read=*/false);
    throw;
  }
  leave(pieces, range, /*was_read=*/true);
}

/// The first piece that may have bytes of `range`.
RemoteObject::Pieces::iterator RemoteObject::first_piece(Window& window, const ByteRange& range) {
  auto next = window.pieces.upper_bound(range.offset);
  return next == window.pieces.begin() ? next : std::prev(next);
}

/// Keeps the pieces that have bytes of `range` until these are read.
void RemoteObject::want(Window& window, const ByteRange& range) {
  for (auto next = first_piece(window, range); next != window.pieces.end() && next->first < range.end();
       ++next)
    next->second->unread[AheadClaim::current()].add(shared(next->second->transfer->range(), range));
}

void RemoteObject::forget(FetchId fetch) {
  Window& window = window_.get();
  const std::lock_guard lock(window.mutex);
  const auto found = std::find_if(window.pieces.begin(), window.pieces.end(),
                                  [&](const auto& piece) { return piece.second->fetch == fetch; });
  if (found == window.pieces.end() || found->second->readers > 0) return;
  drop(*found->second);
  window.pieces.erase(found);
}

void RemoteObject::release(ClaimId claim) {
  std::vector<FetchId> gone;
  Window& window = window_.get();
  {
    const std::lock_guard lock(window.mutex);
    for (auto next = window.pieces.begin(); next != window.pieces.end();) {
      const auto found = next++;
      Piece& piece = *found->second;
      if (piece.unread.erase(claim) == 0 || !piece.unread.empty() || piece.readers > 0) continue;
      gone.push_back(piece.fetch);
      drop(piece);
      window.pieces.erase(found);
    }
  }
  for (const FetchId fetch : gone) AheadLedger::of_process().remove(fetch);
}

/// A piece that nobody wants goes. What came of it and nobody has read is wasted.
void RemoteObject::drop(const Piece& piece) noexcept {
  if (!piece.transfer->is_over()) {
    if (piece.readers == 0) Engine::of_process().drop(piece.fetch);
    return;
  }
  if (piece.transfer->has_failed()) return;
  const std::uint64_t size = piece.transfer->range().size;
  ReadCounts::of_process().unread.add(static_cast<std::int64_t>(size - std::min(size, piece.read)));
}

/// The parts of `range` that no piece has.
std::vector<ByteRange> RemoteObject::missing(const Window& window, const ByteRange& range) const {
  ByteSet result;
  result.add(range);
  auto next = window.pieces.upper_bound(range.offset);
  if (next != window.pieces.begin()) --next;
  for (; next != window.pieces.end() && next->first < range.end(); ++next)
    result.remove(next->second->transfer->range());
  return result.ranges();
}

/// Asks for `range`, which no piece has. The ledger knows of a piece before anybody can take it away.
void RemoteObject::ask(Window& window, const ByteRange& range, std::vector<AheadLedger::Entry>& excess) {
  auto piece = std::make_shared<Piece>();
  piece->transfer = std::make_shared<RangeTransfer>(
      place_, version_, range, host_pool()->acquire(static_cast<std::size_t>(range.size)), arrival_);
  piece->fetch = Engine::of_process().begin(piece->transfer);
  AheadLedger::of_process().add({piece->fetch, shared_from_this(), range.size}, excess);
  ReadCounts::of_process().asked.add(static_cast<std::int64_t>(range.size));
  note_slow_read();
  window.pieces.emplace(range.offset, std::move(piece));
}

/// Takes part in the pieces that have the bytes of `range`, in order, and asks for those that none has.
std::vector<RemoteObject::PiecePtr> RemoteObject::pieces_for(const ByteRange& range) {
  std::vector<PiecePtr> result;
  std::vector<AheadLedger::Entry> excess;
  std::vector<FetchId> gone;
  Window& window = window_.get();
  {
    const std::lock_guard lock(window.mutex);
    drop_failed(window, range, gone);
    for (ByteRange part : missing(window, range)) {
      if (part.end() == range.end()) {
        const ByteRange more{part.offset, std::max(part.size, kLeastRead)};
        part = missing(window, shared(more, {0, version_.size})).front();
      }
      for (const ByteRange& request : plan_requests({&part, 1}, rules())) ask(window, request, excess);
      want(window, part);
    }
    auto next = window.pieces.upper_bound(range.offset);
    for (--next; next != window.pieces.end() && next->first < range.end(); ++next) {
      PiecePtr& piece = next->second;
      ++piece->readers;
      if (!piece->transfer->is_over()) Engine::of_process().urge(piece->fetch);
      result.push_back(piece);
    }
  }
  for (const FetchId fetch : gone) AheadLedger::of_process().remove(fetch);
  for (const auto& [fetch, owner, bytes] : excess) owner->forget(fetch);
  return result;
}

/// What failed while nobody waited for it may do better now.
void RemoteObject::drop_failed(Window& window, const ByteRange& range, std::vector<FetchId>& gone) {
  auto next = first_piece(window, range);
  while (next != window.pieces.end() && next->first < range.end()) {
    const auto piece = next++;
    if (piece->second->readers > 0 || !piece->second->transfer->has_failed()) continue;
    gone.push_back(piece->second->fetch);
    window.pieces.erase(piece);
  }
}

/// Ends the part that `pieces_for` took. Pieces that are read to their end, or have failed, go.
void RemoteObject::leave(const std::vector<PiecePtr>& pieces, const ByteRange& range, bool was_read) {
  std::vector<FetchId> gone;
  Window& window = window_.get();
  {
    const std::lock_guard lock(window.mutex);
    for (const PiecePtr& piece : pieces) {
      --piece->readers;
      if (was_read) {
        for (auto& [claim, bytes] : piece->unread) bytes.remove(range);
        std::erase_if(piece->unread, [](const auto& wanted) { return wanted.second.empty(); });
        piece->read += shared(piece->transfer->range(), range).size;
      }
      if (!piece->unread.empty() && !piece->transfer->has_failed()) continue;
      const auto found = window.pieces.find(piece->transfer->range().offset);
      if (found == window.pieces.end() || found->second != piece) continue;
      drop(*piece);
      window.pieces.erase(found);
      gone.push_back(piece->fetch);
    }
  }
  for (const FetchId fetch : gone) AheadLedger::of_process().remove(fetch);
}

RangeRules RemoteObject::rules() const {
  const ServerView server = Engine::of_process().server(place_->origin());
  RangeRules rules;
  // Bytes that one connection brings while an answer is awaited: an eighth of them is less than a request
  // costs.
  const double meanwhile = server.connection_rate * static_cast<double>(server.median_answer) / kSecond;
  if (meanwhile > 0) {
    rules.gap = std::clamp(static_cast<std::uint64_t>(meanwhile / 8), kLeastGap, kMostGap);
    const double most = std::max(kRequestSeconds * server.connection_rate, 8 * meanwhile);
    rules.most = std::clamp(static_cast<std::uint64_t>(most), kLeastRequest, rules.most);
  }
  return rules;
}

ObjectLook look_at(const PlacePtr& place, const Poll& poll) {
  place->store().prepare(signing_time());
  return with_fresh_credentials(place->store(), [&] {
    const auto transfer = std::make_shared<VersionTransfer>(place);
    Engine::of_process().begin(transfer);
    return transfer->wait(poll);
  });
}

}  // namespace torch_distinput
