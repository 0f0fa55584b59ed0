// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/host_member.h"

#include "comm/peer_text.h"

namespace torch_distinput {
namespace {

using MessageKind = HostMessage::Kind;

}  // namespace

void HostMember::open(const std::string& scope) {
  scopes_.open(scope);
  messages_.push_back({.kind = MessageKind::kOpen, .key = scope});
}

void HostMember::end(const std::string& scope) {
  scopes_.end(scope);
  std::erase_if(posts_, [&](const auto& post) { return scope_of(post.first) == scope; });
  messages_.push_back({.kind = MessageKind::kEnd, .key = scope});
}

void HostMember::contribute(const std::string& key, const std::string& text) {
  messages_.push_back({.kind = MessageKind::kContribute, .key = key, .text = text});
}

void HostMember::post(const std::string& key, const std::string& text) {
  posts_.try_emplace(key, text);
  messages_.push_back({.kind = MessageKind::kPost, .key = key, .text = text});
}

void HostMember::ask(const std::string& key) { messages_.push_back({.kind = MessageKind::kAsk, .key = key}); }

void HostMember::beat(const std::string& activity) {
  messages_.push_back({.kind = MessageKind::kBeat, .text = activity});
}

void HostMember::leave() { messages_.push_back({.kind = MessageKind::kLeave}); }

void HostMember::receive(const HostMessage& message) {
  switch (message.kind) {
    case MessageKind::kWelcome:
      leader_ = static_cast<int>(message.number);
      return;
    case MessageKind::kMet:
      seat_ = GroupMachine::Seat::decode(message.text);
      return;
    case MessageKind::kEntry:
      if (seat_ && message.number > 0) seat_->next = message.number;
      posts_.erase(message.key);
      entries_.push_back({message.key, message.flag, message.text});
      return;
    case MessageKind::kAnswer:
      answers_.push_back({message.key, late_ranks(message.text, size_)});
      return;
    case MessageKind::kLost:
      lost_ = message.text;
      return;
    case MessageKind::kOpen:
      return leader_scopes_.open(message.key);
    case MessageKind::kEnd:
      leader_scopes_.end(message.key);
      return;
    case MessageKind::kBeat:
      leader_activity_ = message.text;
      return;
    case MessageKind::kLeave:
      leader_left_ = true;
      return;
    default:
      throw PeerTextError(
          "DistributedDataset: the leader of this host sent a message that only the others send");
  }
}

std::string HostMember::told_ended(int process) const {
  return leader_left_ ? told_gone(leader_, host_name_, "has left", "")
                      : told_gone(leader_, host_name_, told_process_ended(process), leader_activity_);
}

std::unique_ptr<HostMachine> HostMember::take_over(const std::string& why) const {
  auto machine = std::make_unique<HostMachine>(rank_, size_, *seat_, scopes_);
  for (const auto& [key, text] : posts_) machine->post(key, text);
  machine->report_lost(leader_scopes_, why);
  return machine;
}

void HostMember::lose_leader(const std::string& why) {
  for (const auto& scope : scopes_.all_open())
    if (!leader_scopes_.has_ended(scope)) entries_.push_back({failed_key(scope), false, why});
}

std::vector<HostMessage> HostMember::take_messages() { return std::exchange(messages_, {}); }

std::vector<GroupMachine::Entry> HostMember::take_entries() { return std::exchange(entries_, {}); }

std::vector<HostMember::Answer> HostMember::take_answers() { return std::exchange(answers_, {}); }

}  // namespace torch_distinput
