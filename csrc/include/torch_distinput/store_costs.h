// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "torch_distinput/api.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace torch_distinput {

/// What the processes of a job cost the store of their group, and how long it takes them.
struct StoreCosts {
  double start_seconds = 0;  ///< until all have met and shaken hands
  std::int64_t start_requests = 0;
  std::int64_t start_bytes = 0;  ///< in and out of the store, without the frames of its protocol
  double rest_requests_per_second = 0;
  std::int64_t connections = 0;  ///< to the store, of the library's own
  double round_seconds = 0;      ///< the median of several rounds
  std::int64_t round_messages = 0;
  std::int64_t round_bytes = 0;
};

/// Measures a job of `ranks` ranks on `hosts` hosts over `store`. Its processes are threads of this one, two
/// to three a rank, which speak to each other as in a job. `name` separates its keys from others. `rest`: how
/// long it watches the heartbeats. Throws DistributedDatasetError where the store is lost or does not answer,
/// and std::system_error where there cannot be so many threads or open files.
TDI_API StoreCosts measure_store(c10d::Store& store, int ranks, int hosts, const std::string& name,
                                 std::chrono::duration<double> rest);

}  // namespace torch_distinput
