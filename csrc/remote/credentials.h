// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "remote/object_store.h"

namespace torch_distinput {

/// The credentials of a store, by the names of StorageOptions. They come from `find` (options, environment,
/// files) or, where that has none, from the callback, which is asked again 5 minutes before they expire. Safe
/// from any thread; reading them takes no lock that a callback holds.
class Credentials {
 public:
  using Find = std::function<StorageOptions()>;

  /// `find` returns nothing where there are none. `callback` may be empty.
  Credentials(Find find, CredentialCallback callback, std::string url);

  /// Those that there are at present; empty: anonymous.
  std::shared_ptr<const StorageOptions> get() const;
  /// One of them; "" where there is none.
  std::string get(const std::string& name) const;
  /// As `ObjectStore::prepare` and `refresh`.
  void prepare(SigningTime now) const;
  bool refresh() const;

 private:
  void ask() const;

  Find find_;
  CredentialCallback callback_;
  std::string url_;
  mutable std::mutex asking_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const StorageOptions> known_;
  mutable std::atomic<std::int64_t> next_look_;  ///< seconds since 1970
};

/// The value of an environment variable; "" where it is not set.
std::string environment(const char* name);

}  // namespace torch_distinput
