// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/member_role.h"

#include <utility>

#include "comm/leader_role.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

MemberRole::MemberRole(KeyValueStorePtr store, LocalConnection leader, const std::string& host_name,
                       const std::string& group, std::function<std::unique_ptr<LinkRole>()> next)
    : store_(std::move(store)),
      leader_(std::move(leader)),
      host_name_(host_name),
      next_(std::move(next)),
      member_(store_->rank(), store_->size(), host_name) {
  leader_.send(HostMessage{
      .kind = HostMessage::Kind::kHello, .key = group, .number = store_->rank(), .size = store_->size()}
                   .encode());
}

void MemberRole::report_lost(const ScopeSet&, const std::string& why) {
  leader_lost_ = why;
  member_.lose_leader(why);
}

void MemberRole::ask(const std::string& key, Answer answer) {
  if (leader_.ended()) return answer({});
  asks_.emplace(key, std::move(answer));
  member_.ask(key);
}

std::vector<pollfd> MemberRole::waits_for() const {
  if (leader_.ended()) return {};
  const short events = leader_.has_unsent() ? POLLIN | POLLOUT : POLLIN;
  std::vector<pollfd> all{{leader_.socket(), events, 0}};
  if (leader_.process() >= 0) all.push_back({leader_.process(), POLLIN, 0});
  return all;
}

void MemberRole::progress(const std::function<void()>& news) {
  for (const HostMessage& message : member_.take_messages()) leader_.send(message.encode());
  leader_.flush();
  receive();
  news();
}

void MemberRole::receive() {
  pollfd process{leader_.process(), POLLIN, 0};
  if (process.fd >= 0 && ::poll(&process, 1, 0) > 0) leader_.process_ended();
  for (const std::string& text : leader_.receive()) {
    heard_ = std::chrono::steady_clock::now();
    member_.receive(HostMessage::decode(text));
  }
  for (auto& [key, ranks] : member_.take_answers()) {
    const auto ask = asks_.find(key);
    if (ask == asks_.end()) continue;
    ask->second(std::move(ranks));
    asks_.erase(ask);
  }
  if (leader_.ended()) drop_asks();
  if (!member_.lost().empty()) throw DistributedDatasetError(member_.lost());
}

void MemberRole::drop_asks() {
  for (auto& [key, answer] : asks_) answer({});
  asks_.clear();
}

std::unique_ptr<LinkRole> MemberRole::successor() {
  if (!leader_.ended() && leader_lost_.empty()) return nullptr;
  if (member_.leader() < 0) return next_();
  const std::string why = leader_lost_.empty() ? member_.told_ended(leader_.process_number()) : leader_lost_;
  if (!member_.met())
    throw DistributedDatasetError("DistributedDataset: " + why +
                                  ", before all processes of the group had come.");
  if (!member_.needs_group()) return nullptr;
  return std::make_unique<LeaderRole>(store_, member_.take_over(why), std::nullopt, "");
}

std::optional<GroupMachine::Seat> MemberRole::seat() const {
  if (!member_.met()) return std::nullopt;
  return member_.seat();
}

std::vector<LinkRole::Heard> MemberRole::heard() const {
  if (leader_.ended() || member_.leader() < 0) return {};
  return {{member_.leader(), member_.leader_scopes(), heard_, member_.name_of_leader()}};
}

}  // namespace torch_distinput
