// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/credentials.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

namespace torch_distinput {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
/// Credentials are replaced so many seconds before they expire.
constexpr std::int64_t kEarly = 300;
/// A callback whose credentials expire sooner is not asked more often than this.
constexpr std::int64_t kSeldom = 10;

std::int64_t seconds_of(SigningTime time) { return std::chrono::system_clock::to_time_t(time); }

std::int64_t next_look(const StorageOptions& found) {
  const auto expires = found.find("expires");
  if (expires == found.end()) return kNever;
  double seconds = 0;
  const std::string& text = expires->second;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (problem != std::errc() || !(seconds > 0 && seconds < 1e15)) return kNever;
  const std::int64_t now = seconds_of(std::chrono::system_clock::now());
  return std::max(static_cast<std::int64_t>(seconds) - kEarly, now + kSeldom);
}

}  // namespace

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Credentials::Credentials(Find find, CredentialCallback callback, std::string url)
    : find_(std::move(find)), callback_(std::move(callback)), url_(std::move(url)) {}

std::shared_ptr<const StorageOptions> Credentials::get() const {
  Known& known = known_.get();
  const std::lock_guard lock(known.mutex);
  if (known.options == nullptr) {
    known.options = std::make_shared<const StorageOptions>(find_());
    known.next_look = !callback_ ? kNever : known.options->empty() ? 0 : next_look(*known.options);
  }
  return known.options;
}

std::string Credentials::get(const std::string& name) const {
  const auto known = get();
  const auto found = known->find(name);
  return found == known->end() ? std::string() : found->second;
}

void Credentials::prepare(SigningTime now) const {
  get();
  Known& known = known_.get();
  if (seconds_of(now) < known.next_look.load()) return;
  const std::lock_guard lock(known.asking);
  if (seconds_of(now) < known.next_look.load()) return;  // another thread has asked
  ask(known);
}

bool Credentials::refresh() const {
  const auto before = get();
  Known& known = known_.get();
  const std::lock_guard lock(known.asking);
  if (get() != before) return true;  // another thread has refreshed them
  ask(known);
  return *get() != *before;
}

void Credentials::ask(Known& known) const {
  StorageOptions found = find_();
  // What was found again is what is not good enough any more.
  if (callback_ && (found.empty() || found == *get())) {
    StorageOptions given = callback_(url_);
    if (!given.empty()) found = std::move(given);
  }
  const std::int64_t next = callback_ ? next_look(found) : kNever;
  {
    const std::lock_guard lock(known.mutex);
    known.options = std::make_shared<const StorageOptions>(std::move(found));
  }
  known.next_look = next;  // last: others then take what is known
}

}  // namespace torch_distinput
