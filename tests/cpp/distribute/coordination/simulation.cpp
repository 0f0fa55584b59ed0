// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/simulation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/heartbeat.h"

namespace torch_distinput::simulation {
namespace {

using MessageKind = HostMessage::Kind;
using RequestKind = StoreRequest::Kind;

constexpr const char* kScope = "it/0";
constexpr Time kLocalHop = 20;
constexpr Time kBeat = kSecond;
constexpr Time kFirstLook = 500;
constexpr std::chrono::seconds kHostTimeout{5};

LossWatch::Time clock_of(Time time) { return LossWatch::Time(std::chrono::microseconds(time)); }
LossWatch::Seconds seconds(Time time) { return std::chrono::microseconds(time); }

}  // namespace

struct Simulation::Process {
  Process(int number, const RoundRules& rules) : rank(number), agreement(8, rules) {}

  int rank;
  Time frozen_until = 0;
  bool gone = false;  // it has ended

  // Its link.
  std::unique_ptr<HostMachine> machine;  // where it leads, or goes on for a leader that has ended
  std::unique_ptr<HostMember> member;
  int leader = -1;
  bool orphan = false;
  std::string leader_lost;
  std::vector<int> guests;
  std::map<int, Time> heard;  // last signs of other ranks of the host
  std::deque<StoreRequest> requests;
  bool asks = false;
  std::optional<std::string> awaits;
  Time last_to_leader = 0, last_from_leader = 0;
  Time next_look = kFirstLook;
  std::int64_t heartbeats = 0;
  LossWatch losses;
  bool lost = false;

  // Its program.
  Agreement agreement;
  std::int64_t own_steps = 0;
  bool agreed = false;
  bool in_round = false;
  std::int64_t rounds = 0;
  bool waits = false;
  bool done = false;
  std::optional<std::string> failure;
  std::optional<std::int64_t> left_at;  // a peer took this many steps
  int left_rank = -1;

  void open(const std::string& scope) { machine ? machine->open(scope) : member->open(scope); }
  void end(const std::string& scope) { machine ? machine->end(scope) : member->end(scope); }
  void post(const std::string& key, const std::string& text) {
    machine ? machine->post(key, text) : member->post(key, text);
  }
  void contribute(const std::string& key, const std::string& text, const GroupMachine::Join& join) {
    machine ? machine->contribute(key, text, join) : member->contribute(key, text);
  }
  bool met() const { return machine ? machine->group().met() : member && member->met(); }
};

Simulation::Simulation(Job job) : job_(std::move(job)), random_(job_.seed) {
  outcomes_.resize(static_cast<std::size_t>(job_.ranks));
  for (int rank = 0; rank < job_.ranks; ++rank) {
    processes_.push_back(std::make_unique<Process>(rank, RoundRules{}));
    const auto skew = static_cast<Time>(random_() % static_cast<std::uint64_t>(job_.start_skew + 1));
    at_process(rank, skew, [=, this] { start(rank); });
  }
  for (const Fault& fault : job_.faults) at(fault.at, [=, this] { strike(fault); });
}

Simulation::~Simulation() = default;

void Simulation::at(Time when, std::function<void()> what) {
  events_.push({when, events_made_++, std::move(what)});
}

void Simulation::at_process(int rank, Time when, std::function<void()> what) {
  at(when, [=, this, what = std::move(what)] {
    if (process(rank).gone) return;
    if (process(rank).frozen_until > now_) return at_process(rank, process(rank).frozen_until, what);
    what();
  });
}

bool Simulation::run_until(const std::function<bool()>& done) {
  while (!done()) {
    if (events_.empty() || events_.top().at > job_.until) return false;
    now_ = events_.top().at;
    const auto what = std::move(const_cast<Event&>(events_.top()).what);
    events_.pop();
    what();
  }
  return true;
}

void Simulation::run() {
  run_until([this] {
    return std::all_of(processes_.begin(), processes_.end(),
                       [](const auto& one) { return one->gone || one->done; });
  });
}

std::int64_t Simulation::speakers() const {
  return std::count_if(processes_.begin(), processes_.end(),
                       [](const auto& one) { return one->machine != nullptr; });
}

// Life of a process.

void Simulation::start(int rank) {
  outcomes_[static_cast<std::size_t>(rank)].started = true;
  const auto leader = leaders_.find(host_of(rank));
  if (leader == leaders_.end() || process(leader->second).gone || process(leader->second).met())
    return lead(rank);
  process(rank).member = std::make_unique<HostMember>(rank, job_.ranks, name_of_host(rank));
  connect(rank, leader->second);
}

void Simulation::lead(int rank) {
  Process& self = process(rank);
  leaders_[host_of(rank)] = rank;
  self.member.reset();
  self.machine = std::make_unique<HostMachine>(rank, job_.ranks, random_(), name_of_host(rank));
  self.machine->group().start();
  at_process(rank, now_ + self.next_look, [=, this] { look(rank); });
  progress(rank);
}

void Simulation::connect(int rank, int leader) {
  process(rank).leader = leader;
  at_process(leader, now_ + kLocalHop, [=, this] {
    Process& host = process(leader);
    // A link that has lost the store has closed its socket.
    if (host.lost || !host.machine->admit(rank))
      return at_process(rank, now_ + kLocalHop, [=, this] { lead(rank); });
    host.guests.push_back(rank);
    host.heard[rank] = now_;
    send_to_member(leader, rank, {.kind = MessageKind::kWelcome, .number = leader});
    progress(leader);
  });
}

void Simulation::look(int rank) {
  Process& self = process(rank);
  if (self.machine->group().met()) return;
  self.machine->group().look();
  progress(rank);
  self.next_look = std::min(2 * self.next_look, std::max<Time>(20 * kMs, 250 * job_.ranks));
  at_process(rank, now_ + self.next_look, [=, this] { look(rank); });
}

void Simulation::beat(int rank) {
  Process& self = process(rank);
  const std::string activity = "took step " + std::to_string(outcomes_[static_cast<std::size_t>(rank)].steps);
  at_process(rank, now_ + kBeat, [=, this] { beat(rank); });
  if (!self.met() || self.lost) return;
  const auto now = clock_of(now_);
  const LossWatch::Seconds timeout(job_.peer_timeout);
  for (const auto& [other, heard] : self.heard) {
    const auto silence =
        self.losses.check_rank(other, clock_of(heard), seconds(kBeat), now, seconds(2 * kBeat), timeout);
    if (!self.machine && silence.length > std::chrono::seconds(2)) {
      // Stands in for its leader.
      const std::string key =
          "life/" + self.member->seat().life + "/" + heartbeat_key(self.member->seat().host);
      Heartbeat heartbeat{
          .number = ++self.heartbeats, .next = std::chrono::seconds(1), .scopes = self.member->scopes()};
      serve({RequestKind::kSet, key, heartbeat.encode()});
    }
    if (!silence.lost) continue;
    const std::string why = "rank " + std::to_string(other) + " sent no heartbeat";
    if (self.machine) {
      self.machine->report_lost({}, why);
    } else {
      self.member->lose_leader(why);
      progress(rank);
      return lose_leader(rank, why);
    }
  }
  if (!self.machine) {
    self.member->beat(activity);
    return progress(rank);
  }
  self.machine->beat(activity);
  const GroupMachine& group = self.machine->group();
  const auto send = [&] {
    Heartbeat heartbeat = self.machine->heartbeat();
    heartbeat.number = ++self.heartbeats;
    heartbeat.next = std::chrono::seconds(1);
    self.machine->group().set(heartbeat_key(group.host()), heartbeat.encode());
  };
  send();
  const std::int64_t next = (group.host() + 1) % group.hosts();
  if (next != group.host() && !store_lost_) {
    ++costs_.requests;
    const auto text = read(group.prefix() + heartbeat_key(next));
    if (!text) {
      self.losses.no_host(now);
    } else {
      costs_.bytes += static_cast<std::int64_t>(text->size());
      const Heartbeat last = Heartbeat::decode({*text, "a heartbeat"}, job_.ranks);
      if (self.losses.check_host(*text, last.next, now, seconds(2 * kBeat), kHostTimeout)) {
        const auto record =
            HostRecord::decode(*read(group.prefix() + "host/" + std::to_string(next)), "x", job_.ranks);
        self.machine->report_lost(last.scopes, record.str() + " sent no heartbeat");
      }
    }
  }
  progress(rank);
}

void Simulation::kill(int rank) {
  Process& self = process(rank);
  if (std::exchange(self.gone, true)) return;
  outcomes_[static_cast<std::size_t>(rank)].alive = false;
  if (self.leader >= 0 && self.member) {
    const int leader = self.leader;
    self.last_to_leader = std::max(self.last_to_leader + 1, now_ + kLocalHop);
    at_process(leader, self.last_to_leader, [=, this] {
      process(leader).heard.erase(rank);
      process(leader).machine->gone(rank, told_process_ended(0));
      progress(leader);
    });
  }
  for (const int guest : self.guests) {
    Time& last = process(guest).last_from_leader;
    last = std::max(last + 1, now_ + kLocalHop);
    at_process(guest, last, [=, this] {
      lose_leader(guest, process(guest).member ? process(guest).member->told_ended(0) : "");
    });
  }
}

void Simulation::lose_leader(int rank, const std::string& why) {
  Process& self = process(rank);
  if (!self.member) return;
  self.leader_lost = why;
  self.orphan = true;
  self.heard.clear();
  if (!self.member->met()) return lose(rank, why + ", before all processes of the group had come.");
  if (!self.member->needs_group()) return;
  self.machine = self.member->take_over(self.leader_lost);
  self.member.reset();
  progress(rank);
}

void Simulation::freeze(int rank, Time length) {
  process(rank).frozen_until = std::max(process(rank).frozen_until, now_ + length);
}

void Simulation::strike(const Fault& fault) {
  using Kind = Fault::Kind;
  if (fault.kind == Kind::kKill) return kill(fault.rank);
  if (fault.kind == Kind::kFreeze) return freeze(fault.rank, fault.length);
  if (fault.kind == Kind::kLoseStore) {
    store_lost_ = true;
    return;
  }
  if (fault.kind == Kind::kEndSilently) {
    if (process(fault.rank).done) kill(fault.rank);
    return;
  }
  if (fault.kind == Kind::kLeave) {
    Process& self = process(fault.rank);
    if (self.done || self.gone || !self.agreed) return;
    self.post(std::string(kScope) + "/left",
              std::to_string(fault.rank) + " " +
                  std::to_string(outcomes_[static_cast<std::size_t>(fault.rank)].steps));
    outcomes_[static_cast<std::size_t>(fault.rank)].error = "left";
    return end_scope(fault.rank);
  }
  for (int rank = 0; rank < job_.ranks; ++rank) {
    if (host_of(rank) != host_of(fault.rank)) continue;
    fault.kind == Kind::kKillHost ? kill(rank) : freeze(rank, fault.length);
  }
}

// Its link.

void Simulation::progress(int rank) {
  Process& self = process(rank);
  if (self.gone || self.lost) return;
  take_entries(rank);
  if (self.machine) {
    for (const auto& [to, message] : self.machine->take_messages())
      for (const int guest : self.guests)
        if (!to || *to == guest) send_to_member(rank, guest, message);
    for (auto& request : self.machine->group().take_requests()) self.requests.push_back(std::move(request));
    make_requests(rank);
    wait_for_entry(rank);
  } else if (self.member) {
    for (const auto& message : self.member->take_messages()) send_to_leader(rank, message);
  }
  Outcome& outcome = outcomes_[static_cast<std::size_t>(rank)];
  if (self.met() && !std::exchange(outcome.met, true)) {
    outcome.met_at = now_;
    iterate(rank);
  }
}

void Simulation::send_to_member(int leader, int rank, const HostMessage& message) {
  Time& last = process(rank).last_from_leader;
  last = std::max(last + 1, now_ + kLocalHop);
  at_process(rank, last, [=, this, text = message.encode()] {
    Process& self = process(rank);
    if (!self.member) return;
    self.heard[leader] = now_;
    self.member->receive(HostMessage::decode(text));
    if (!self.member->lost().empty()) return lose(rank, self.member->lost());
    progress(rank);
  });
}

void Simulation::send_to_leader(int rank, const HostMessage& message) {
  Process& self = process(rank);
  if (self.orphan) return;
  self.last_to_leader = std::max(self.last_to_leader + 1, now_ + kLocalHop);
  const int leader = self.leader;
  at_process(leader, self.last_to_leader, [=, this, text = message.encode()] {
    process(leader).heard[rank] = now_;
    process(leader).machine->receive(rank, HostMessage::decode(text));
    progress(leader);
  });
}

void Simulation::make_requests(int rank) {
  Process& self = process(rank);
  if (self.asks || self.requests.empty()) return;
  self.asks = true;
  auto request = std::make_shared<StoreRequest>(std::move(self.requests.front()));
  self.requests.pop_front();
  at(now_ + delay(), [=, this] {
    if (store_lost_) return at_process(rank, now_ + delay(), [=, this] { lose(rank, "the store is lost"); });
    const StoreAnswer answer = serve(*request);
    at_process(rank, now_ + delay(), [=, this] {
      Process& asker = process(rank);
      asker.asks = false;
      if (asker.lost) return;
      if (request->then) request->then(answer);
      progress(rank);
      make_requests(rank);
    });
  });
}

StoreAnswer Simulation::serve(const StoreRequest& request) {
  ++costs_.requests;
  StoreAnswer answer;
  switch (request.kind) {
    case RequestKind::kSet:
      texts_[request.key] = request.text;
      push(request.key);
      break;
    case RequestKind::kCompareSet:
      answer.text = texts_.try_emplace(request.key, request.text).first->second;
      push(request.key);
      break;
    case RequestKind::kAppend:
      texts_[request.key] += request.text;
      break;
    case RequestKind::kAdd:
      answer.number = numbers_[request.key] += request.number;
      break;
    case RequestKind::kGet:
      answer.text = read(request.key);
      break;
    case RequestKind::kRemove:
      texts_.erase(request.key);
      numbers_.erase(request.key);
      break;
  }
  const std::size_t answered = answer.text ? answer.text->size() : 8;
  costs_.bytes += static_cast<std::int64_t>(request.key.size() + request.text.size() + answered);
  costs_.longest = std::max({costs_.longest, request.text.size(), answered});
  return answer;
}

std::optional<std::string> Simulation::read(const std::string& key) {
  const auto text = texts_.find(key);
  return text == texts_.end() ? std::nullopt : std::optional(text->second);
}

void Simulation::wait_for_entry(int rank) {
  Process& self = process(rank);
  // Before all have met, hosts look now and then instead.
  const auto key = self.machine->listens() ? self.machine->group().awaits() : std::nullopt;
  if (!key || self.awaits == key) return;
  self.awaits = key;
  at(now_ + delay(), [=, this] {
    waiting_[*key].push_back(rank);
    if (texts_.contains(*key)) push(*key);
  });
}

/// Sends the text under `key` to all that wait for it.
void Simulation::push(const std::string& key) {
  const auto waiting = waiting_.find(key);
  if (waiting == waiting_.end() || store_lost_) return;
  for (const int rank : std::exchange(waiting->second, {})) {
    costs_.requests += 2;  // the wait, and the reading of its text
    costs_.bytes += static_cast<std::int64_t>(key.size() + texts_[key].size());
    at_process(rank, now_ + 3 * delay(), [=, this, text = texts_[key]] {
      Process& self = process(rank);
      if (self.awaits == key) self.awaits.reset();
      self.machine->group().found(key, text);
      progress(rank);
    });
  }
}

void Simulation::lose(int rank, const std::string& why) {
  Process& self = process(rank);
  if (std::exchange(self.lost, true)) return;
  for (const int guest : self.guests) send_to_member(rank, guest, {.kind = MessageKind::kLost, .text = why});
  fail(rank, why);
}

// Its program.

void Simulation::take_entries(int rank) {
  Process& self = process(rank);
  std::vector<GroupMachine::Entry> entries;
  if (self.machine) entries = self.machine->take_entries();
  if (self.member) entries = self.member->take_entries();
  const std::string scope = kScope;
  for (const auto& [key, failed, text] : entries) {
    if (self.done) return;
    if (failed || key == failed_key(scope)) {
      fail(rank, text);
    } else if (key == scope + "/left") {
      PeerTextReader reader(text + " ", "x");
      self.left_rank = static_cast<int>(reader.integer("a rank", 0, job_.ranks));
      self.left_at = reader.integer("a step", 0, 1'000'000);
      if (self.waits) consume(rank);
    } else if (key == scope + "/open") {
      self.agreed = true;
      produce(rank);
      hold_round(rank);
      consume(rank);
    } else if (key == scope + "/round-" + std::to_string(self.rounds)) {
      ++self.rounds;
      self.in_round = false;
      self.agreement.apply(round_of_all(text, job_.ranks));
      produce(rank);
      hold_round(rank);
      if (self.waits) consume(rank);
    }
  }
}

void Simulation::iterate(int rank) {
  Process& self = process(rank);
  self.open(kScope);
  beat(rank);  // its monitor starts
  if (self.orphan && self.member) {
    self.machine = self.member->take_over(self.leader_lost);
    self.member.reset();
  }
  self.contribute(std::string(kScope) + "/open", "x", [](const auto& texts) { return texts.front(); });
  progress(rank);
}

void Simulation::produce(int rank) {
  Process& self = process(rank);
  const std::int64_t steps = job_.steps[static_cast<std::size_t>(rank)];
  while (self.own_steps < steps && self.agreement.has_room()) {
    self.agreement.add_step({.valid = 1 + rank % 3});
    ++self.own_steps;
  }
  if (self.own_steps == steps) self.agreement.end();
}

void Simulation::hold_round(int rank) {
  Process& self = process(rank);
  if (self.in_round || self.done || !self.agreement.wants_round()) return;
  self.in_round = true;
  self.contribute(std::string(kScope) + "/round-" + std::to_string(self.rounds),
                  self.agreement.summary(rank).encode(),
                  [ranks = job_.ranks](const auto& texts) { return join_rounds(texts, ranks); });
  progress(rank);
}

void Simulation::consume(int rank) {
  Process& self = process(rank);
  if (self.done) return;
  self.waits = false;
  Outcome& outcome = outcomes_[static_cast<std::size_t>(rank)];
  if (self.left_at && outcome.steps >= *self.left_at)
    return fail(rank, "rank " + std::to_string(self.left_rank) + " left its loop");
  if (self.agreement.released() == 0) {
    self.waits = !self.agreement.ended();
    if (self.agreement.ended()) {
      outcome.ended = true;
      outcome.ended_at = now_;
      end_scope(rank);
    }
    return;
  }
  std::int64_t own = 0;
  outcome.rows += self.agreement.take(own).global_valid;
  ++outcome.steps;
  at_process(rank,
             now_ + job_.step_time / 2 +
                 static_cast<Time>(random_() % static_cast<std::uint64_t>(job_.step_time + 1)),
             [=, this] { consume(rank); });
  produce(rank);
  hold_round(rank);
}

void Simulation::fail(int rank, const std::string& why) {
  Process& self = process(rank);
  if (self.done) return;
  Outcome& outcome = outcomes_[static_cast<std::size_t>(rank)];
  outcome.error = why;
  outcome.told_at = now_;
  if (self.lost || !self.met()) {
    self.done = true;
    return;
  }
  end_scope(rank);
}

void Simulation::end_scope(int rank) {
  Process& self = process(rank);
  self.done = true;
  self.end(kScope);
  if (self.machine && self.heartbeats > 0 && self.machine->heartbeat().scopes.all_open().empty()) {
    Heartbeat heartbeat = self.machine->heartbeat();
    heartbeat.number = ++self.heartbeats;
    heartbeat.next = std::chrono::seconds(1);
    self.machine->group().set(heartbeat_key(self.machine->group().host()), heartbeat.encode());
  }
  progress(rank);
}

}  // namespace torch_distinput::simulation
