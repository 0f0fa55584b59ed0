// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/key_value_store.h"

namespace torch_distinput {

/// What the store answered to a StoreRequest.
struct StoreAnswer {
  std::optional<std::string> text;  ///< of kCompareSet, and of kGet where there is one
  std::int64_t number = 0;          ///< of kAdd: the sum
};

/// A call of the group's store, as in KeyValueStore.
struct StoreRequest {
  enum class Kind { kSet, kCompareSet, kAppend, kAdd, kGet, kRemove };
  Kind kind;
  std::string key;
  std::string text = {};
  std::int64_t number = 0;
  std::function<void(const StoreAnswer&)> then = {};  ///< takes the answer; empty: it does not matter
};

/// The key, within a life, of what `rank` sets as a sign that it is alive; the last process to leave removes
/// it.
std::string heartbeat_key(int rank);

/// One process's part in what the processes of a group say to each other, as a state machine: no threads, no
/// waits, no clock. Its owner makes the requests in order, waits for the text under `awaits()` and hands over
/// what comes.
///
/// **Life.** Rank 0 draws a name for this life of the group, since a store may hold texts of processes that
/// died. The others join the life that they read; counters tell rank 0 when all have come, and the first
/// entry of the life's log says so. A process that joined the life of dead processes finds that this log has
/// an entry that does not count it, or none at all, and joins the next life when rank 0 names it. So N
/// processes need N requests of a few kinds, whatever N is.
///
/// **Log.** All processes receive one sequence of entries, each a text under a key. An entry is set under its
/// number unless there is another, so that all read the same sequence; a process waits for one key, that of
/// the next entry, and the store pushes its arrival.
///
/// **Reductions.** Each process contributes one text, and an entry has the join of all. Groups of `kFanIn`
/// processes append to one text; the last one to come joins them and goes on to the next level (a combining
/// tree), so that nobody waits for contributions, and a request carries `kFanIn` texts at most.
///
/// Entries that no process waits for any more are removed by whoever finishes a reduction: each contribution
/// says which ones its process was found.
///
/// Texts in the store are untrusted: functions that take one throw PeerTextError. One thread at a time.
class GroupMachine {
 public:
  /// Texts that one process appends to and one request carries.
  static constexpr std::int64_t kFanIn = 32;

  /// Joins contributions into one. Must be associative and commutative. May throw; then each process gets the
  /// error.
  using Join = std::function<std::string(const std::vector<std::string>& texts)>;

  /// An entry of the log.
  struct Entry {
    std::string key;
    bool failed = false;  ///< `text` is an error instead of a result
    std::string text;
  };

  /// `nonce`: a random number. `rank` is in [0, size).
  GroupMachine(int rank, int size, std::uint64_t nonce);

  /// Begins to meet the others.
  void start();
  /// Whether all processes have come. REQUIRED by the functions below.
  bool met() const noexcept { return processes_ > 0; }
  /// Before all keys of this life. Empty before `met()`.
  std::string prefix() const;
  /// Contributes `text` to the reduction `key`, whose result is an entry. Each process contributes once.
  void contribute(const std::string& key, const std::string& text, Join join);
  /// Adds an entry unless one has the same key.
  void post(const std::string& key, const std::string& text);
  /// Counts, once a process, that it makes no reduction any more whose key begins with `scope`; the last
  /// process adds an entry `<scope>ended`.
  void end(const std::string& scope);
  /// Ends this process's part; the last one removes what is left of the life. No function may follow but
  /// `take_requests`.
  void leave();

  /// The key whose text this process waits for; nullopt: none.
  std::optional<std::string> awaits() const;
  /// Takes the text under `key`, which was awaited, and may have come by another request since.
  void found(const std::string& key, const std::string& text);
  /// Looks for the text that this process waits for, and whether rank 0 has named another life. To be called
  /// now and then until `met()`.
  void look();
  /// The requests that have come up, in order. Their answers may bring up others.
  std::vector<StoreRequest> take_requests();
  /// The entries that have come, in order.
  std::vector<Entry> take_entries();

  /// The ranks that have not contributed to the reduction `key`, or, before `met()`, have not come. `store`:
  /// the group's. For messages.
  std::vector<int> missing(KeyValueStore& store, const std::string& key) const;

 private:
  enum class Stage { kNew, kSeeking, kJoined, kMet };

  void request(StoreRequest one) { requests_.push_back(std::move(one)); }
  void name_life();
  void consider(const std::string& named);
  void join_life(const std::string& life);
  void open_log(const Entry& first);

  /// What the processes of one group of one level of a reduction share.
  struct Place {
    std::string key;  // of the reduction
    std::int64_t level = 0;
    std::int64_t member = 0;   // index of the process, or of the group of the level below
    std::int64_t members = 0;  // of the level
    std::int64_t group() const { return member / kFanIn; }
    std::int64_t groups() const { return (members + kFanIn - 1) / kFanIn; }
    std::int64_t expected() const;
    std::string texts() const;
    std::string counter() const { return texts() + "/n"; }
  };
  void arrive(Place place, std::int64_t read, const std::string& text, const Join& join);
  void combine(const Place& place, const std::string& texts, const Join& join);
  void finish(const std::string& key, std::int64_t read, bool failed, const std::string& text);
  void add_entry(std::int64_t index, const Entry& entry, std::int64_t read);
  void deliver(const std::string& text);
  void clean_log(std::int64_t index);
  void drop_texts(const std::string& scope);
  std::string log_key(std::int64_t index) const;
  std::vector<bool> contributed(KeyValueStore& store, const Place& level) const;

  int rank_;
  int size_;
  std::string own_life_;  // rank 0's
  Stage stage_ = Stage::kNew;
  std::string life_;          // that this process has joined
  std::string named_;         // the text that named it
  std::int64_t member_ = -1;  // this process's number in its life; -1: not known
  std::int64_t processes_ = 0;
  std::int64_t next_ = 0;  // entry to be read
  std::int64_t seen_ = 0;  // first entry that may be waited for still
  std::int64_t kept_ = 0;  // the first entry that may be there still
  std::multimap<std::string, Place>
      unfinished_;  // where this process has contributed to reductions, by their key
  std::vector<StoreRequest> requests_;
  std::vector<Entry> entries_;
};

}  // namespace torch_distinput
