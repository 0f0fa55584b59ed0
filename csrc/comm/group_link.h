// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process_owned.h"
#include "comm/group_machine.h"
#include "comm/host_identity.h"
#include "comm/key_value_store.h"
#include "comm/link_role.h"
#include "comm/scope_set.h"
#include "comm/waiting.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {

/// This process's one link to the other processes of a group. A thread runs the process's LinkRole; where it
/// speaks for its host, another thread waits for the store to push the next entry. Safe from any thread.
///
/// Keys of entries are `<scope>/<what>`, see ScopeSet. Entries of a scope are kept until it ends here; those
/// of a scope that this process opens later are kept for it.
class GroupLink {
 public:
  explicit GroupLink(KeyValueStorePtr kv_store, HostIdentity host = {});
  /// Tells the group that this process leaves; waits about a second at most.
  ~GroupLink();
  GroupLink(const GroupLink&) = delete;
  GroupLink& operator=(const GroupLink&) = delete;

  int rank() const noexcept { return kv_store_->rank(); }
  int size() const noexcept { return kv_store_->size(); }
  /// Waits until all processes of the group have come, once. Throws DistributedDatasetError, which names the
  /// missing ranks, and what `wait_until` throws. May be called again after an error.
  void meet(const WaitOptions& wait_options);
  /// The store, with keys of this life of the group. REQUIRES: `meet` has returned, here and below. A process
  /// that does not speak for its host connects to the store at the first call.
  KeyValueStorePtr store() const;
  /// Whether this process speaks for its host; others may take over.
  bool speaks() const;
  /// The number of hosts, and which is this process's.
  std::int64_t hosts() const;
  std::int64_t host() const;

  /// Opens a scope. REQUIRES: its number is above those of scopes of the same name that were opened.
  void open(const std::string& scope);
  /// Ends a scope for this process: its entries are dropped. Waits until the others have been told, a tenth
  /// of a second at most, because the process may end at once.
  void end(const std::string& scope) noexcept;
  /// Contributes `text` to the reduction `key`; the first call for a key counts. REQUIRES: the scope is open.
  void contribute(const std::string& key, const std::string& text, GroupMachine::Join join);
  /// Waits for the join of all processes' texts, once. Throws DistributedDatasetError as `wait_until` does,
  /// when the store is lost, and on all ranks when texts cannot be joined. After a wait that ended early, the
  /// next call continues. REQUIRES: `contribute` was called for `key`.
  std::string result(const std::string& key, WaitOptions wait_options);
  /// Both.
  std::string reduce(const std::string& key, const std::string& text, GroupMachine::Join join,
                     WaitOptions wait_options);
  /// Adds an entry for all processes, this one included, unless one has the same key. Does not wait.
  void post(const std::string& key, const std::string& text);
  /// The text of an entry that was posted; nullopt: none has come.
  std::optional<std::string> find(const std::string& key) const;
  /// The number of entries that have come: while it does not change, neither does what `find` returns.
  std::int64_t entries() const noexcept;
  /// Why nothing can be said any more; "": it can.
  std::string lost() const;

  /// Tells the group what this rank did last. The next call comes within `next`.
  void beat(const std::string& activity, std::chrono::milliseconds next);
  /// The other ranks of this host, as of the last `beat`.
  std::vector<LinkRole::Heard> heard() const;
  /// The scopes that this process has opened and ended.
  ScopeSet scopes() const;
  /// A host of the group, for messages. Throws as KeyValueStore does.
  HostRecord record(std::int64_t host) const;
  /// As HostMachine::report_lost.
  void report_lost(const ScopeSet& scopes, const std::string& why);

 private:
  struct Shared;
  void wait_for(const std::function<bool(const Shared&)>& ready, const std::string& key,
                WaitOptions wait_options);
  std::vector<LateRank> missing(const std::string& key) const;

  KeyValueStorePtr kv_store_;
  ProcessOwned<Shared> shared_;
  std::unique_ptr<WorkerThread> thread_;  // runs the role; last, because it uses the others
};
using GroupLinkPtr = std::shared_ptr<GroupLink>;

/// Reduces by keeping every text: `texts_of_all` takes the result apart. For texts that are not summaries.
std::string text_of_one(int rank, const std::string& text);
std::string join_texts(const std::vector<std::string>& texts);
/// The texts in a join of all ranks' `text_of_one`, by rank. Throws PeerTextError.
std::vector<std::string> texts_of_all(const std::string& joined, int size, const std::string& whose);

}  // namespace torch_distinput
