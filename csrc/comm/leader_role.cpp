// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/leader_role.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "comm/peer_text.h"

namespace torch_distinput {
namespace {

using MessageKind = HostMessage::Kind;

StoreAnswer make(KeyValueStore& store, const StoreRequest& request) {
  switch (request.kind) {
    case StoreRequest::Kind::kSet:
      store.set(request.key, request.text);
      return {};
    case StoreRequest::Kind::kCompareSet:
      return {store.compare_set(request.key, request.text)};
    case StoreRequest::Kind::kAppend:
      store.append(request.key, request.text);
      return {};
    case StoreRequest::Kind::kAdd:
      return {{}, store.add(request.key, request.number)};
    case StoreRequest::Kind::kGet:
      if (auto texts = store.multi_get({request.key})) return {std::move(texts->front())};
      return {};
    case StoreRequest::Kind::kRemove:
      store.remove(request.key);
      return {};
  }
  return {};
}

}  // namespace

LeaderRole::LeaderRole(KeyValueStorePtr store, std::unique_ptr<HostMachine> machine,
                       std::optional<LocalListener> listener, std::string group)
    : store_(std::move(store)),
      machine_(std::move(machine)),
      listener_(std::move(listener)),
      group_(std::move(group)) {
  if (!machine_->group().met()) machine_->group().start();
}

LeaderRole::~LeaderRole() = default;

void LeaderRole::end(const std::string& scope) {
  machine_->end(scope);
  // A process that has ended its scopes may go without a word, but its last heartbeat must say so.
  if (heartbeat_ > 0 && machine_->heartbeat().scopes.all_open().empty()) send_heartbeat();
}

void LeaderRole::beat(const std::string& activity, std::chrono::milliseconds next) {
  next_ = next;
  machine_->beat(activity);
  send_heartbeat();
}

void LeaderRole::send_heartbeat() {
  if (!machine_->group().met()) return;
  Heartbeat heartbeat = machine_->heartbeat();
  heartbeat.number = ++heartbeat_;
  heartbeat.next = next_;
  machine_->group().set(heartbeat_key(machine_->group().host()), heartbeat.encode());
}

void LeaderRole::leave() {
  // Where others of this host may go on, they send its heartbeat.
  if (machine_->group().met() && !machine_->group().took_over())
    machine_->group().set(heartbeat_key(machine_->group().host()), kGone);
  machine_->leave();
  listener_.reset();
}

void LeaderRole::ask(const std::string& key, Answer answer) { answer(machine_->missing(*store_, key)); }

std::optional<GroupMachine::Seat> LeaderRole::seat() const {
  if (!machine_->group().met()) return std::nullopt;
  return machine_->group().seat();
}

std::optional<std::string> LeaderRole::awaits() const {
  return machine_->listens() ? machine_->group().awaits() : std::nullopt;
}

std::vector<pollfd> LeaderRole::waits_for() const {
  std::vector<pollfd> all;
  if (listener_) all.push_back({listener_->socket(), POLLIN, 0});
  for (const Guest& guest : guests_) {
    const short events = guest.connection.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    all.push_back({guest.connection.socket(), events, 0});
    if (guest.connection.process() >= 0) all.push_back({guest.connection.process(), POLLIN, 0});
  }
  return all;
}

void LeaderRole::progress(const std::function<void()>& news) {
  receive();
  pass_on();
  news();
  make_requests(news);
  if (listener_ && machine_->group().met()) listener_.reset();
}

void LeaderRole::receive() {
  while (listener_) {
    auto connection = listener_->accept();
    if (!connection) break;
    guests_.push_back({.connection = std::move(*connection)});
  }
  for (Guest& guest : guests_) receive_from(guest);
  std::erase_if(guests_, [](const Guest& guest) { return guest.dropped; });
}

void LeaderRole::receive_from(Guest& guest) {
  pollfd process{guest.connection.process(), POLLIN, 0};
  if (process.fd >= 0 && ::poll(&process, 1, 0) > 0) guest.connection.process_ended();
  try {
    for (const std::string& text : guest.connection.receive()) {
      guest.heard = std::chrono::steady_clock::now();
      take(guest, HostMessage::decode(text));
      if (guest.dropped) return;
    }
  } catch (const PeerTextError& error) {
    return drop(guest, std::string("sent a text that cannot be read: ") + error.what_without_backtrace());
  }
  if (guest.connection.ended()) drop(guest, told_process_ended(guest.connection.process_number()));
}

void LeaderRole::take(Guest& guest, const HostMessage& message) {
  if (guest.rank < 0) {
    if (admits(guest, message))
      guest.connection.send(HostMessage{.kind = MessageKind::kWelcome, .number = machine_->rank()}.encode());
    else
      guest.dropped = true;
    return;
  }
  if (message.kind == MessageKind::kAsk) {
    const std::string late = text_of(machine_->missing(*store_, message.key));
    return guest.connection.send(
        HostMessage{.kind = MessageKind::kAnswer, .key = message.key, .text = late}.encode());
  }
  if (message.kind == MessageKind::kOpen) guest.scopes.open(message.key);
  if (message.kind == MessageKind::kEnd) guest.scopes.end(message.key);
  machine_->receive(guest.rank, message);
  if (message.kind == MessageKind::kEnd && heartbeat_ > 0 && machine_->heartbeat().scopes.all_open().empty())
    send_heartbeat();
  if (message.kind == MessageKind::kLeave) guest.dropped = true;
}

bool LeaderRole::admits(Guest& guest, const HostMessage& hello) {
  const int size = store_->size();
  if (hello.kind != MessageKind::kHello || hello.key != group_ || hello.size != size || hello.number >= size)
    return false;
  if (!machine_->admit(static_cast<int>(hello.number))) return false;
  guest.rank = static_cast<int>(hello.number);
  return true;
}

void LeaderRole::drop(Guest& guest, const std::string& how) {
  if (guest.rank >= 0) machine_->gone(guest.rank, how);
  guest.dropped = true;
}

/// Sends what has come to the other processes, before this one has it: its program may end on that.
void LeaderRole::pass_on() {
  for (auto& entry : machine_->take_entries()) entries_.push_back(std::move(entry));
  for (const auto& [rank, message] : machine_->take_messages()) {
    const std::string text = message.encode();
    for (Guest& guest : guests_)
      if (guest.rank >= 0 && (!rank || *rank == guest.rank)) guest.connection.send(text);
  }
  for (Guest& guest : guests_) guest.connection.flush();
}

/// Makes the requests that have come up, and those that their answers bring up.
void LeaderRole::make_requests(const std::function<void()>& news) {
  GroupMachine& group = machine_->group();
  std::deque<StoreRequest> left;
  const auto take = [&] {
    for (auto& request : group.take_requests()) left.push_back(std::move(request));
  };
  try {
    for (take(); !left.empty(); take()) {
      const StoreRequest request = std::move(left.front());
      left.pop_front();
      const StoreAnswer answer = make(*store_, request);
      if (!request.then) continue;
      request.then(answer);
      pass_on();
      news();
    }
  } catch (const DistributedDatasetError& error) {
    const std::string why = error.what_without_backtrace();
    for (Guest& guest : guests_)
      guest.connection.send(HostMessage{.kind = MessageKind::kLost, .text = why}.encode());
    throw;
  }
}

std::vector<LinkRole::Heard> LeaderRole::heard() const {
  std::vector<Heard> all;
  for (const Guest& guest : guests_)
    if (guest.rank >= 0)
      all.push_back({guest.rank, guest.scopes, guest.heard, machine_->name_of(guest.rank)});
  return all;
}

}  // namespace torch_distinput
