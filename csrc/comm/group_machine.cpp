// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/group_machine.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <sstream>
#include <utility>

#include "comm/heartbeat.h"
#include "comm/peer_text.h"

namespace torch_distinput {
namespace {

using Kind = StoreRequest::Kind;

constexpr const char* kLife = "life";
constexpr const char* kMet = "met";
constexpr const char* kEnded = "ended";
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string whose(const std::string& key) { return "DistributedDataset: the text under `" + key + "`"; }

/// The life that rank 0 named, and the number of ranks that it has.
struct Named {
  std::string life;
  std::int64_t size;

  static Named decode(const std::string& text) {
    PeerTextReader reader(text, whose(kLife));
    Named named{std::string(reader.string("the name of the life")),
                reader.integer("the number of ranks", 1, kMost)};
    reader.end();
    return named;
  }
  std::string encode() const {
    PeerTextWriter writer;
    writer.string(life);
    writer.integer(size);
    return writer.take();
  }
};

/// An entry as it lies in the store.
struct WrittenEntry {
  GroupMachine::Entry entry;
  std::int64_t kept;  // all have read the entries before this one

  std::string encode() const {
    PeerTextWriter writer;
    writer.string(entry.key);
    writer.integer(kept);
    writer.flag(entry.failed);
    writer.string(entry.text);
    return writer.take();
  }
  static WrittenEntry decode(const std::string& text, const std::string& key, std::int64_t index) {
    PeerTextReader reader(text, whose(key));
    WrittenEntry written;
    written.entry.key = reader.string("the key of an entry");
    written.kept = reader.integer("the entries that are over", 0, index);
    written.entry.failed = reader.flag("whether it is an error");
    written.entry.text = reader.string("the text of an entry");
    reader.end();
    return written;
  }
};

}  // namespace

std::string HostRecord::encode() const {
  PeerTextWriter writer;
  writer.string(name);
  ranks.encode(writer);
  return writer.take();
}

HostRecord HostRecord::decode(const std::string& text, const std::string& whose, int size) {
  PeerTextReader reader(text, whose);
  HostRecord record;
  record.name = reader.string("the name of a host");
  record.ranks = RankRanges::decode(reader, size);
  reader.end();
  return record;
}

std::string HostRecord::str() const {
  return name.empty() ? name_ranks(ranks) : "host " + name + " (" + name_ranks(ranks) + ")";
}

std::string GroupMachine::Seat::encode() const {
  PeerTextWriter writer;
  writer.string(life);
  for (const std::int64_t number : {host, hosts, next}) writer.integer(number);
  return writer.take();
}

GroupMachine::Seat GroupMachine::Seat::decode(const std::string& text) {
  PeerTextReader reader(text, "DistributedDataset: the seat of a host");
  Seat seat;
  seat.life = reader.string("the name of the life");
  seat.host = reader.integer("the number of a host", 0, kMost);
  seat.hosts = reader.integer("the number of hosts", 1, kMost);
  seat.next = reader.integer("the next entry", 0, kMost);
  reader.end();
  return seat;
}

GroupMachine::GroupMachine(int rank, int size, std::uint64_t nonce, std::string host_name)
    : rank_(rank), size_(size), host_name_(std::move(host_name)), ranks_(RankRanges::of(rank)) {
  std::ostringstream name;
  name << std::hex << nonce;
  own_life_ = name.str();
}

GroupMachine::GroupMachine(int rank, int size, const Seat& seat)
    : rank_(rank),
      size_(size),
      took_over_(true),
      stage_(Stage::kMet),
      life_(seat.life),
      ranks_(RankRanges::of(rank)),
      host_(seat.host),
      hosts_(seat.hosts),
      next_(seat.next),
      seen_(seat.next),
      kept_(seat.next) {}

std::string GroupMachine::prefix() const { return met() ? "life/" + life_ + "/" : ""; }

std::string GroupMachine::log_key(std::int64_t index) const {
  return "life/" + life_ + "/log/" + std::to_string(index);
}

void GroupMachine::start() {
  stage_ = Stage::kSeeking;
  if (ranks_.first() == 0) name_life();
}

void GroupMachine::add_rank(int rank) {
  ranks_.add(rank);
  if (rank == 0 && stage_ != Stage::kNew) {
    life_.clear();  // that of processes which died: only rank 0 names one
    name_life();
  }
  announce();
}

void GroupMachine::name_life() {
  named_ = Named{own_life_, size_}.encode();
  request({Kind::kSet, kLife, named_});
  if (life_.empty()) join_life(own_life_);
}

void GroupMachine::look() {
  if (met()) return;
  if (const auto key = awaits()) {
    request({.kind = Kind::kGet, .key = *key, .then = [key = *key, this](const StoreAnswer& answer) {
               if (answer.text) found(key, *answer.text);
             }});
  }
  if (stage_ == Stage::kSeeking) return;
  request({.kind = Kind::kGet, .key = kLife, .then = [this](const StoreAnswer& answer) {
             if (met() || answer.text == named_) return;
             if (ranks_.first() == 0) {
               name_life();  // a text of dead processes has replaced it
             } else if (answer.text) {
               consider(*answer.text);
             }
           }});
}

void GroupMachine::consider(const std::string& named) {
  const Named life = Named::decode(named);
  named_ = named;
  if (life.size == size_) {
    join_life(life.life);
  } else {
    stage_ = Stage::kJoined;  // of another number of processes: dead ones named it
    life_.clear();
  }
}

void GroupMachine::join_life(const std::string& life) {
  stage_ = Stage::kJoined;
  life_ = life;
  host_ = -1;
  announced_ = 0;
  request({.kind = Kind::kAdd,
           .key = "life/" + life + "/hosts",
           .number = 1,
           .then = [=, this](const StoreAnswer& answer) {
             if (life_ != life) return;
             host_ = answer.number - 1;
             announce();
           }});
}

/// Counts the ranks that have come to this host.
void GroupMachine::announce() {
  const std::size_t come = ranks_.count() - announced_;
  if (host_ < 0 || met() || come == 0) return;
  announced_ += come;
  const std::string key = "life/" + life_ + "/";
  request({Kind::kSet, key + "host/" + std::to_string(host_), HostRecord{host_name_, ranks_}.encode()});
  request({.kind = Kind::kAdd,
           .key = key + "come",
           .number = static_cast<std::int64_t>(come),
           .then = [=, this](const StoreAnswer& answer) {
             if (answer.number == size_) request({Kind::kSet, key + "all", "all"});
           }});
}

std::optional<std::string> GroupMachine::awaits() const {
  if (stage_ == Stage::kNew || (met() && !logged())) return std::nullopt;
  if (stage_ == Stage::kSeeking) return kLife;
  if (life_.empty() || host_ < 0) return std::nullopt;
  if (ranks_.first() == 0 && !met()) return "life/" + life_ + "/all";
  return log_key(next_);
}

void GroupMachine::found(const std::string& key, const std::string& text) {
  for (std::int64_t index = seen_; index <= next_; ++index)
    if (key == log_key(index)) seen_ = index + 1;
  if (key != awaits()) return;
  if (stage_ == Stage::kSeeking) return consider(text);
  if (ranks_.first() == 0 && !met()) {
    return request(
        {.kind = Kind::kAdd, .key = "life/" + life_ + "/hosts", .then = [this](const StoreAnswer& answer) {
           add_entry(0, {kMet, false, std::to_string(answer.number) + " "}, 0);
         }});
  }
  deliver(text);
}

/// The first entry says how many hosts the life has.
void GroupMachine::open_log(const Entry& first) {
  PeerTextReader reader(first.text, whose(log_key(0)));
  if (first.key != kMet) reader.fail("the first entry", "`met`", first.key);
  const std::int64_t hosts = reader.integer("the number of hosts", 1, size_);
  reader.end();
  if (host_ >= hosts) {
    // The processes of this life were complete without those of this host: they are dead.
    life_.clear();
    next_ = seen_ = 0;
    return;
  }
  stage_ = Stage::kMet;
  hosts_ = hosts;
}

void GroupMachine::deliver(const std::string& text) {
  const WrittenEntry written = WrittenEntry::decode(text, log_key(next_), next_);
  ++next_;
  kept_ = std::max(kept_, written.kept);
  if (next_ == 1) return open_log(written.entry);
  unfinished_.erase(written.entry.key);
  if (written.entry.key.ends_with(kEnded))
    drop_texts(written.entry.key.substr(0, written.entry.key.size() - std::string_view(kEnded).size()));
  entries_.push_back(written.entry);
}

std::int64_t GroupMachine::Place::expected() const { return std::min(kFanIn, members - group() * kFanIn); }

std::string GroupMachine::Place::texts() const {
  return key + "/up/" + std::to_string(level) + "/" + std::to_string(group());
}

void GroupMachine::contribute(const std::string& key, const std::string& text, Join join) {
  if (took_over_) return;  // the process that led this host is missing
  arrive({key, 0, host_, hosts_}, seen_, text, join);
}

void GroupMachine::refuse(const std::string& key, const std::string& why) { finish(key, kept_, true, why); }

void GroupMachine::arrive(Place place, std::int64_t read, const std::string& text, const Join& join) {
  while (place.members > 1 && place.expected() == 1)
    place = {place.key, place.level + 1, place.group(), place.groups()};
  PeerTextWriter frame;
  frame.integer(place.member);
  frame.integer(read);
  frame.string(text);
  if (place.members == 1) return combine(place, frame.take(), join);
  unfinished_.emplace(place.key, place);
  const std::string texts = prefix() + place.texts();
  request({Kind::kAppend, texts, frame.take()});
  request({.kind = Kind::kAdd,
           .key = prefix() + place.counter(),
           .number = 1,
           .then = [=, this](const StoreAnswer& come) {
             if (come.number != place.expected()) return;
             request({.kind = Kind::kGet, .key = texts, .then = [=, this](const StoreAnswer& answer) {
                        combine(place, answer.text.value_or(""), join);
                        request({Kind::kRemove, texts});
                        request({Kind::kRemove, prefix() + place.counter()});
                      }});
           }});
}

/// `texts`: of all members of the group.
void GroupMachine::combine(const Place& place, const std::string& texts, const Join& join) {
  std::int64_t read = next_;
  std::string joined;
  try {
    PeerTextReader reader(texts, whose(prefix() + place.texts()));
    std::vector<std::string> parts;
    std::vector<std::int64_t> members;
    while (!reader.ended()) {
      members.push_back(
          reader.integer("a member", place.group() * kFanIn, place.group() * kFanIn + place.expected() - 1));
      read = std::min(read, reader.integer("the entries that a member has read", 0, kMost));
      parts.emplace_back(reader.string("the text of a member"));
    }
    std::sort(members.begin(), members.end());
    if (std::unique(members.begin(), members.end()) != members.end() || std::ssize(parts) != place.expected())
      reader.fail("the group", "of " + std::to_string(place.expected()) + " members",
                  "of " + std::to_string(parts.size()));
    joined = join(parts);
  } catch (const DistributedDatasetError& error) {
    return finish(place.key, kept_, true, error.what_without_backtrace());
  }
  if (place.groups() == 1) return finish(place.key, read, false, joined);
  arrive({place.key, place.level + 1, place.group(), place.groups()}, read, joined, join);
}

void GroupMachine::finish(const std::string& key, std::int64_t read, bool failed, const std::string& text) {
  const std::int64_t kept = kept_;
  if (!logged()) return entries_.push_back({key, failed, text});
  add_entry(next_, {key, failed, text}, read);
  for (std::int64_t index = kept; index < read; ++index) request({Kind::kRemove, log_key(index)});
}

void GroupMachine::post(const std::string& key, const std::string& text) {
  if (!logged()) {
    if (posted_.insert(key).second) entries_.push_back({key, false, text});
    return;
  }
  add_entry(next_, {key, false, text}, kept_);
}

void GroupMachine::add_entry(std::int64_t index, const Entry& entry, std::int64_t read) {
  const std::string mine = WrittenEntry{entry, std::min(read, index)}.encode();
  request({.kind = Kind::kCompareSet,
           .key = log_key(index),
           .text = mine,
           .then = [=, this](const StoreAnswer& answer) {
             const std::string& there = answer.text.value();
             const bool added = there == mine;
             const bool same =
                 added || WrittenEntry::decode(there, log_key(index), index).entry.key == entry.key;
             if (index == next_) deliver(there);
             if (!same) add_entry(index + 1, entry, read);
           }});
}

/// Removes this process's texts of reductions that never had the contributions of all.
void GroupMachine::drop_texts(const std::string& scope) {
  std::erase_if(unfinished_, [&](const auto& one) {
    if (!one.first.starts_with(scope)) return false;
    request({Kind::kRemove, prefix() + one.second.texts()});
    request({Kind::kRemove, prefix() + one.second.counter()});
    return true;
  });
}

void GroupMachine::end(const std::string& scope) {
  if (!logged()) {
    std::erase_if(posted_, [&](const auto& key) { return key.starts_with(scope); });
    return;
  }
  const std::string key = scope + kEnded;
  const std::string counter = prefix() + key + "/n";
  request({.kind = Kind::kAdd, .key = counter, .number = 1, .then = [=, this](const StoreAnswer& ended) {
             if (ended.number != hosts_) return;
             request({Kind::kRemove, counter});
             post(key, "");
           }});
}

void GroupMachine::leave(int ranks) {
  if (!met()) return;
  drop_texts("");
  request({.kind = Kind::kAdd,
           .key = prefix() + "gone",
           .number = ranks,
           .then = [this](const StoreAnswer& gone) {
             if (gone.number != size_) return;
             for (const char* const one : {"gone", "hosts", "come", "all"})
               request({Kind::kRemove, prefix() + one});
             for (std::int64_t host = 0; host < hosts_; ++host) {
               request({Kind::kRemove, prefix() + "host/" + std::to_string(host)});
               request({Kind::kRemove, prefix() + heartbeat_key(host)});
             }
             request({Kind::kRemove, kLife});
             for (std::int64_t index = kept_; index < next_; ++index)
               request({Kind::kRemove, log_key(index)});
             clean_log(next_);
           }});
}

/// Removes the entries from `index` on, which this process has not read.
void GroupMachine::clean_log(std::int64_t index) {
  request({.kind = Kind::kGet, .key = log_key(index), .then = [=, this](const StoreAnswer& answer) {
             if (!answer.text) return;
             request({Kind::kRemove, log_key(index)});
             clean_log(index + 1);
           }});
}

/// Which members of `level` have contributed: those whose text is there, and those whose group went on to the
/// next level.
std::vector<bool> GroupMachine::contributed(KeyValueStore& store, const Place& level) const {
  std::vector<bool> members(static_cast<std::size_t>(level.members));
  std::vector<bool> groups;
  if (level.groups() > 1) groups = contributed(store, {level.key, level.level + 1, 0, level.groups()});
  for (Place place = level; place.member < level.members; place.member += kFanIn) {
    const std::int64_t end = place.member + place.expected();
    if (!groups.empty() && groups[static_cast<std::size_t>(place.group())]) {
      for (std::int64_t member = place.member; member < end; ++member)
        members[static_cast<std::size_t>(member)] = true;
      continue;
    }
    const auto texts = store.multi_get({prefix() + place.texts()});
    if (!texts) continue;
    PeerTextReader reader(texts->front(), whose(prefix() + place.texts()));
    while (!reader.ended()) {
      members[static_cast<std::size_t>(reader.integer("a member", place.member, end - 1))] = true;
      reader.integer("the entries that a member has read", 0, kMost);
      reader.string("the text of a member");
    }
  }
  return members;
}

HostRecord GroupMachine::record(KeyValueStore& store, std::int64_t host) const {
  const std::string key = "life/" + life_ + "/host/" + std::to_string(host);
  const auto text = store.multi_get({key});
  return text ? HostRecord::decode(text->front(), whose(key), size_) : HostRecord{};
}

/// Those of `host` that have not contributed to `key`.
std::vector<LateRank> GroupMachine::late_of(KeyValueStore& store, std::int64_t host,
                                            const std::string& key) const {
  RankRanges ranks = record(store, host).ranks;
  Heartbeat last;
  const std::string heartbeat = prefix() + heartbeat_key(host);
  const auto text = store.multi_get({heartbeat});
  if (text && text->front() != kGone) last = Heartbeat::decode({text->front(), whose(heartbeat)}, size_);
  if (const auto late = last.late.find(key); late != last.late.end()) ranks = late->second;
  std::vector<LateRank> all;
  for (const int rank : ranks.ranks()) all.push_back({rank, last.activities[rank]});
  return all;
}

std::vector<LateRank> GroupMachine::missing(KeyValueStore& store, const std::string& key) const {
  if (life_.empty()) return {{0}};
  std::vector<LateRank> late;
  if (met()) {
    const auto have = contributed(store, {key, 0, 0, hosts_});
    for (std::int64_t host = 0; host < hosts_; ++host) {
      if (have[static_cast<std::size_t>(host)]) continue;
      for (auto& one : late_of(store, host, key)) late.push_back(std::move(one));
    }
    std::sort(late.begin(), late.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    return late;
  }
  RankRanges come;
  const std::int64_t hosts = std::min<std::int64_t>(store.add("life/" + life_ + "/hosts", 0), size_);
  for (std::int64_t host = 0; host < hosts; ++host) come.join(record(store, host).ranks);
  const auto ranks = come.ranks();
  for (int rank = 0; rank < size_; ++rank)
    if (!std::binary_search(ranks.begin(), ranks.end(), rank)) late.push_back({rank});
  return late;
}

std::vector<StoreRequest> GroupMachine::take_requests() { return std::exchange(requests_, {}); }

std::vector<GroupMachine::Entry> GroupMachine::take_entries() { return std::exchange(entries_, {}); }

}  // namespace torch_distinput
