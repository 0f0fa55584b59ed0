// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/host_machine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using MessageKind = HostMessage::Kind;

}  // namespace

HostMachine::HostMachine(int rank, int size, std::uint64_t nonce, std::string host_name)
    : rank_(rank), host_name_(host_name), group_(rank, size, nonce, std::move(host_name)) {
  ranks_[rank];
}

HostMachine::HostMachine(int rank, int size, const GroupMachine::Seat& seat, ScopeSet scopes)
    : rank_(rank), group_(rank, size, seat), told_met_(true) {
  ranks_[rank].scopes = std::move(scopes);
}

bool HostMachine::admit(int rank) {
  if (group_.met() || !ranks_.try_emplace(rank).second) return false;
  group_.add_rank(rank);
  return true;
}

void HostMachine::receive(int rank, const HostMessage& message) {
  Rank& sender = ranks_.at(rank);
  switch (message.kind) {
    case MessageKind::kContribute:
      return contribute(rank, message.key, message.text);
    case MessageKind::kPost:
      return post(message.key, message.text);
    case MessageKind::kOpen:
      return open(rank, message.key);
    case MessageKind::kEnd:
      return end(rank, message.key);
    case MessageKind::kBeat:
      sender.activity = message.text;
      return;
    case MessageKind::kLeave:
      sender.left = true;
      return gone(rank, "has left");
    default:
      throw PeerTextError(
          "DistributedDataset: a process of this host sent a message that only its leader sends");
  }
}

void HostMachine::open(int rank, const std::string& scope) {
  ranks_.at(rank).scopes.open(scope);
  // So that the others know what is open here, should this process end.
  if (rank == rank_) tell({.kind = MessageKind::kOpen, .key = scope});
  fail_scope(scope);
}

void HostMachine::end(int rank, const std::string& scope) {
  ranks_.at(rank).scopes.end(scope);
  if (rank == rank_) tell({.kind = MessageKind::kEnd, .key = scope});
  const bool all = std::all_of(ranks_.begin(), ranks_.end(),
                               [&](const auto& one) { return one.second.scopes.has_ended(scope); });
  if (!all) return;
  std::erase_if(pending_, [&](const auto& one) { return scope_of(one.first) == scope; });
  group_.end(scope + "/");
}

void HostMachine::contribute(const std::string& key, const std::string& text, GroupMachine::Join join) {
  pending_[key].join = std::move(join);
  contribute(rank_, key, text);
}

void HostMachine::contribute(int rank, const std::string& key, const std::string& text) {
  pending_[key].texts.try_emplace(rank, text);
  pass_on(key);
}

/// Contributes to a reduction of the group if all ranks of this host have.
void HostMachine::pass_on(const std::string& key) {
  Pending& pending = pending_.at(key);
  if (pending.texts.size() < ranks_.size() || !pending.join) return;
  std::vector<std::string> texts;
  for (auto& [rank, text] : pending.texts) texts.push_back(std::move(text));
  const auto join = std::move(pending.join);
  pending_.erase(key);
  try {
    group_.contribute(key, texts.size() == 1 ? texts.front() : join(texts), join);
  } catch (const DistributedDatasetError& error) {
    group_.refuse(key, error.what_without_backtrace());
  }
}

void HostMachine::beat(const std::string& activity) {
  ranks_.at(rank_).activity = activity;
  tell({.kind = MessageKind::kBeat, .text = activity});
}

void HostMachine::gone(int rank, const std::string& how) {
  Rank& gone = ranks_.at(rank);
  if (std::exchange(gone.gone, true)) return;
  report_lost(gone.scopes, told_gone(rank, host_name_, how, gone.left ? "" : gone.activity));
}

void HostMachine::report_lost(const ScopeSet& scopes, const std::string& why) {
  lost_.push_back({scopes, why});
  std::set<std::string> open;
  for (const auto& [rank, one] : ranks_)
    if (!one.gone) open.insert(one.scopes.all_open().begin(), one.scopes.all_open().end());
  for (const auto& scope : open) fail_scope(scope);
}

/// Fails `scope`, which is open, if a rank that has not ended it is lost.
void HostMachine::fail_scope(const std::string& scope) {
  if (!group_.met()) return;
  for (const auto& [scopes, why] : lost_)
    if (!scopes.has_ended(scope)) return post(failed_key(scope), why);
}

/// Sends a message to all ranks of this host but the leader.
void HostMachine::tell(HostMessage message) {
  if (ranks_.size() > 1) messages_.push_back({std::nullopt, std::move(message)});
}

std::vector<GroupMachine::Entry> HostMachine::take_entries() {
  if (group_.met() && !std::exchange(told_met_, true))
    tell({.kind = MessageKind::kMet, .text = group_.seat().encode()});
  auto entries = group_.take_entries();
  for (const auto& entry : entries) {
    // Who takes over goes on after the last one.
    const bool last = &entry == &entries.back();
    tell({.kind = MessageKind::kEntry,
          .key = entry.key,
          .text = entry.text,
          .number = last ? group_.seat().next : 0,
          .flag = entry.failed});
  }
  return entries;
}

std::vector<HostMachine::Outgoing> HostMachine::take_messages() { return std::exchange(messages_, {}); }

bool HostMachine::listens() const {
  return group_.met() && std::any_of(ranks_.begin(), ranks_.end(), [](const auto& one) {
           return !one.second.gone && !one.second.scopes.all_open().empty();
         });
}

/// The ranks of this host that have not contributed to `key`.
RankRanges HostMachine::late(const std::string& key) const {
  const auto pending = pending_.find(key);
  RankRanges late;
  for (const auto& [rank, one] : ranks_)
    if (pending == pending_.end() || !pending->second.texts.contains(rank)) late.add(rank);
  return late;
}

Heartbeat HostMachine::heartbeat() const {
  Heartbeat heartbeat;
  std::vector<ScopeSet> scopes;
  for (const auto& [rank, one] : ranks_) {
    if (!one.activity.empty()) heartbeat.activities[rank] = one.activity;
    if (!one.gone) scopes.push_back(one.scopes);
  }
  heartbeat.scopes = ScopeSet::of_all(scopes);
  for (const auto& [key, pending] : pending_) heartbeat.late[key] = late(key);
  return heartbeat;
}

std::vector<LateRank> HostMachine::missing(KeyValueStore& store, const std::string& key) const {
  std::vector<LateRank> all;
  if (!group_.met()) return group_.missing(store, key);
  if (group_.hosts() > 1) all = group_.missing(store, key);
  std::erase_if(all, [&](const auto& one) { return ranks_.contains(one.rank); });
  if (!pending_.contains(key)) return all;  // this host has contributed
  for (const int rank : late(key).ranks()) all.push_back({rank, ranks_.at(rank).activity});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return all;
}

void HostMachine::leave() {
  tell({.kind = MessageKind::kLeave});
  const auto left =
      std::count_if(ranks_.begin(), ranks_.end(), [](const auto& one) { return one.second.left; });
  group_.leave(static_cast<int>(left) + 1);
}

std::string name_of_rank(int rank, const std::string& host_name) {
  return "rank " + std::to_string(rank) + (host_name.empty() ? "" : " on host " + host_name);
}

std::string told_gone(int rank, const std::string& host_name, const std::string& how,
                      const std::string& activity) {
  std::string told = name_of_rank(rank, host_name) + " " + how;
  if (!activity.empty()) told += "; it " + activity;
  return told;
}

std::string told_process_ended(int process) {
  return "ended unexpectedly" + (process > 0 ? " (process " + std::to_string(process) + ")" : "");
}

std::string text_of(const std::vector<LateRank>& ranks) {
  PeerTextWriter writer;
  writer.integer(ranks.size());
  for (const auto& [rank, activity] : ranks) {
    writer.integer(rank);
    writer.string(activity);
  }
  return writer.take();
}

std::vector<LateRank> late_ranks(const std::string& text, int size) {
  PeerTextReader reader(text, "DistributedDataset: the ranks that have not come");
  std::vector<LateRank> ranks(reader.count("the number of ranks"));
  for (auto& [rank, activity] : ranks) {
    rank = static_cast<int>(reader.integer("a rank", 0, size - 1));
    activity = reader.string("the activity of a rank");
  }
  reader.end();
  return ranks;
}

}  // namespace torch_distinput
