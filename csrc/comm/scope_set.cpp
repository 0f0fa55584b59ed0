// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/scope_set.h"

#include <algorithm>
#include <limits>

namespace torch_distinput {
namespace {

constexpr std::int64_t kMaxNumber = std::numeric_limits<std::int64_t>::max();

/// `text` up to its last slash.
std::string parent_of(const std::string& text) {
  return text.substr(0, std::min(text.rfind('/'), text.size()));
}

std::int64_t number_of(const std::string& scope) {
  const std::string digits = scope.substr(scope.rfind('/') + 1) + " ";
  return PeerTextReader(digits, "the name of a scope").integer("the number of a scope", 0, kMaxNumber);
}

}  // namespace

void ScopeSet::open(const std::string& scope) {
  open_.insert(scope);
  auto& last = last_.try_emplace(parent_of(scope), -1).first->second;
  last = std::max(last, number_of(scope));
}

bool ScopeSet::end(const std::string& scope) { return open_.erase(scope) > 0; }

bool ScopeSet::has_ended(const std::string& scope) const {
  if (open_.contains(scope)) return false;
  const auto last = last_.find(parent_of(scope));
  return last != last_.end() && number_of(scope) <= last->second;
}

ScopeSet ScopeSet::of_all(const std::vector<ScopeSet>& processes) {
  if (processes.empty()) return {};
  ScopeSet all = processes.front();
  for (const auto& one : processes) {
    all.open_.insert(one.open_.begin(), one.open_.end());
    std::erase_if(all.last_, [&](const auto& last) { return !one.last_.contains(last.first); });
    for (auto& [name, last] : all.last_) last = std::min(last, one.last_.at(name));
  }
  return all;
}

void ScopeSet::encode(PeerTextWriter& text) const {
  text.integer(open_.size());
  for (const auto& scope : open_) text.string(scope);
  text.integer(last_.size());
  for (const auto& [name, last] : last_) {
    text.string(name);
    text.integer(last);
  }
}

ScopeSet ScopeSet::decode(PeerTextReader& text) {
  ScopeSet scopes;
  for (auto left = text.count("the number of open scopes"); left > 0; --left)
    scopes.open_.emplace(text.string("an open scope"));
  for (auto left = text.count("the number of names of scopes"); left > 0; --left) {
    const std::string name(text.string("the name of scopes"));
    scopes.last_[name] = text.integer("the number of a scope", 0, kMaxNumber);
  }
  return scopes;
}

std::string scope_of(const std::string& key) { return parent_of(key); }

std::string failed_key(const std::string& scope) { return scope + "/failed"; }

}  // namespace torch_distinput
