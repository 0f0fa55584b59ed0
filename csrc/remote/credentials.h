// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/of_process.h"
#include "remote/object_store.h"

namespace torch_distinput {

/// The credentials of a store, by the names of StorageOptions. They come from `find` (options, environment,
/// files) or, where that has none, or none that last, from the callback, which is asked again 5 minutes
/// before they expire. Safe from any thread; reading them takes no lock that a callback holds. A forked child
/// looks for its own.
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
  /// What this process knows. The locks of its parent may be held by threads that a forked child lacks.
  struct Known {
    std::mutex asking;
    std::mutex mutex;
    std::shared_ptr<const StorageOptions> options;
    std::atomic<std::int64_t> next_look{0};  ///< seconds since 1970
  };
  void ask(Known& known) const;

  Find find_;
  CredentialCallback callback_;
  std::string url_;
  mutable OfProcess<Known> known_;
};

/// The value of an environment variable; "" where it is not set.
std::string environment(const char* name);

}  // namespace torch_distinput
