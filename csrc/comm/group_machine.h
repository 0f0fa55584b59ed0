// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "comm/rank_ranges.h"
#include "comm/waiting.h"

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

/// A host as the others know it: its name, "" if it has none, and its ranks.
struct HostRecord {
  std::string name;
  RankRanges ranks;

  std::string encode() const;
  /// Throws PeerTextError for a text that `encode` cannot have made, of a group of `size` ranks.
  static HostRecord decode(const std::string& text, const std::string& whose, int size);
  /// For messages: `host gpu-017 (ranks 136-143)`, or `ranks 136-143` where it has no name.
  std::string str() const;
};

/// What the hosts of a group say to each other, as a state machine: no threads, no waits, no clock. A host is
/// one process or several that speak through one of them, its leader. The owner makes the requests in order,
/// waits for the text under `awaits()` and hands over what comes.
///
/// **Life.** Rank 0 draws a name for this life of the group, since a store may hold texts of processes that
/// died. The others join the life that they read; counters tell rank 0's host when all ranks have come, and
/// the first entry of the life's log says so. A host that joined the life of dead processes finds that this
/// log has an entry that does not count it, or none at all, and joins the next life when rank 0 names it. So
/// N hosts need N requests of a few kinds, whatever N is.
///
/// **Log.** All hosts receive one sequence of entries, each a text under a key. An entry is set under its
/// number unless there is another, so that all read the same sequence; a host waits for one key, that of the
/// next entry, and the store pushes its arrival. A group of one host needs no log.
///
/// **Reductions.** Each host contributes one text, and an entry has the join of all. Groups of `kFanIn` hosts
/// append to one text; the last one to come joins them and goes on to the next level (a combining tree), so
/// that nobody waits for contributions, and a request carries `kFanIn` texts at most.
///
/// Entries that no host waits for any more are removed by whoever finishes a reduction: each contribution
/// says which ones its host has found.
///
/// Texts in the store are untrusted: functions that take one throw PeerTextError. One thread at a time.
class GroupMachine {
 public:
  /// Texts that one request carries.
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

  /// What a process must know to go on in the place of its host's leader.
  struct Seat {
    std::string life;
    std::int64_t host = 0;
    std::int64_t hosts = 1;
    std::int64_t next = 1;  ///< entry of the log to be read

    std::string encode() const;
    static Seat decode(const std::string& text);
  };

  /// `rank`: this process's, in [0, size). `nonce`: a random number. `host_name`: for messages, may be empty.
  GroupMachine(int rank, int size, std::uint64_t nonce, std::string host_name = {});
  /// Goes on where the leader of this host has ended: reads and posts entries. No reduction is ever complete,
  /// because that process is missing.
  GroupMachine(int rank, int size, const Seat& seat);

  /// Begins to meet the others.
  void start();
  /// Speaks for another rank of this host, too. REQUIRES: not `met()`.
  void add_rank(int rank);
  /// Whether all ranks have come. REQUIRED by the functions below.
  bool met() const noexcept { return stage_ == Stage::kMet; }
  /// Before all keys of this life. Empty before `met()`.
  std::string prefix() const;
  /// For another process of this host.
  Seat seat() const { return {life_, host_, hosts_, next_}; }
  /// Whether this process goes on in the place of a leader that has ended.
  bool took_over() const noexcept { return took_over_; }
  /// The number of hosts, and which this one is.
  std::int64_t hosts() const noexcept { return hosts_; }
  std::int64_t host() const noexcept { return host_; }
  /// Contributes `text` to the reduction `key`, whose result is an entry. Each host contributes once.
  void contribute(const std::string& key, const std::string& text, Join join);
  /// Makes `why` the failed entry of a reduction that cannot have a result.
  void refuse(const std::string& key, const std::string& why);
  /// Adds an entry unless one has the same key.
  void post(const std::string& key, const std::string& text);
  /// Sets the text under a key of this life, which is no entry.
  void set(const std::string& key, const std::string& text) {
    request({StoreRequest::Kind::kSet, prefix() + key, text});
  }
  /// Counts, once a host, that it makes no reduction any more whose key begins with `scope`; the last host
  /// adds an entry `<scope>ended`.
  void end(const std::string& scope);
  /// Ends the part of `ranks` ranks of this host; the last one of the group removes what is left of the life.
  /// No function may follow but `take_requests`.
  void leave(int ranks);

  /// The key whose text this host waits for; nullopt: none.
  std::optional<std::string> awaits() const;
  /// Takes the text under `key`, which was awaited, and may have come by another request since.
  void found(const std::string& key, const std::string& text);
  /// Looks for the text that this host waits for, and whether rank 0 has named another life. To be called
  /// now and then until `met()`.
  void look();
  /// The requests that have come up, in order. Their answers may bring up others.
  std::vector<StoreRequest> take_requests();
  /// The entries that have come, in order.
  std::vector<Entry> take_entries();

  /// The ranks that have not contributed to the reduction `key`, or, before `met()`, have not come. Of other
  /// hosts it knows what their last heartbeats say. `store`: the group's. For messages.
  std::vector<LateRank> missing(KeyValueStore& store, const std::string& key) const;
  /// A host of the group, for messages. REQUIRES: `met()`.
  HostRecord record(KeyValueStore& store, std::int64_t host) const;

 private:
  enum class Stage { kNew, kSeeking, kJoined, kMet };

  void request(StoreRequest one) { requests_.push_back(std::move(one)); }
  void name_life();
  void consider(const std::string& named);
  void join_life(const std::string& life);
  void announce();
  bool logged() const noexcept { return hosts_ > 1 || took_over_; }
  void open_log(const Entry& first);

  /// What the hosts of one group of one level of a reduction share.
  struct Place {
    std::string key;  // of the reduction
    std::int64_t level = 0;
    std::int64_t member = 0;   // index of the host, or of the group of the level below
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
  std::vector<LateRank> late_of(KeyValueStore& store, std::int64_t host, const std::string& key) const;

  int rank_;
  int size_;
  std::string host_name_;
  std::string own_life_;  // where this host has rank 0
  bool took_over_ = false;
  Stage stage_ = Stage::kNew;
  std::string life_;           // that this host has joined
  std::string named_;          // the text that named it
  RankRanges ranks_;           // of this host
  std::size_t announced_ = 0;  // number of them that are counted in this life
  std::int64_t host_ = -1;     // this host's number in its life; -1: not known
  std::int64_t hosts_ = 0;
  std::int64_t next_ = 0;  // entry to be read
  std::int64_t seen_ = 0;  // first entry that may be waited for still
  std::int64_t kept_ = 0;  // the first entry that may be there still
  std::multimap<std::string, Place>
      unfinished_;                // where this host has contributed to reductions, by their key
  std::set<std::string> posted_;  // keys of entries that were posted, where there is no log
  std::vector<StoreRequest> requests_;
  std::vector<Entry> entries_;
};

}  // namespace torch_distinput
