// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/peer_text.h"

namespace torch_distinput {

/// The scopes that a process has opened and ended. A scope is what several processes use together for a
/// while, such as an iterator: `<name>/<number>`, with numbers that grow within a name.
class ScopeSet {
 public:
  /// REQUIRES: the scope's number is above those of the scopes of its name that were opened.
  void open(const std::string& scope);
  /// Returns whether the scope was open.
  bool end(const std::string& scope);

  bool is_open(const std::string& scope) const { return open_.contains(scope); }
  /// Whether the scope, or a later one of its name, was opened and is not open any more.
  bool has_ended(const std::string& scope) const;
  const std::set<std::string>& all_open() const noexcept { return open_; }

  /// Those of several processes together: open is what one of them has open, and has ended what all have.
  static ScopeSet of_all(const std::vector<ScopeSet>& processes);

  void encode(PeerTextWriter& text) const;
  /// The set that comes next in `text`. Throws PeerTextError for one that `encode` cannot have written.
  static ScopeSet decode(PeerTextReader& text);

 private:
  std::set<std::string> open_;
  std::map<std::string, std::int64_t> last_;  // the number of the last opened scope of a name
};

/// The scope of an entry or reduction under `key`: `<scope>/<what>`.
std::string scope_of(const std::string& key);

/// The entry of a scope that says why it failed.
std::string failed_key(const std::string& scope);

}  // namespace torch_distinput
