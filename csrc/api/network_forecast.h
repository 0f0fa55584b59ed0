// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/disk_cache.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// What an epoch will read over networks.
struct NetworkForecast {
  std::int64_t files = 0;                     ///< objects
  std::int64_t files_of_user = 0;             ///< of these, those that a file system of the user's reads
  std::optional<std::uint64_t> bytes = 0;     ///< of all objects; unset where sizes are not known
  std::optional<std::uint64_t> requests = 0;  ///< for the bytes of stores; unset where that is not known
  /// Those that make an index first, by reading all bytes; 0 where there is one, unset where sizes are not
  /// known.
  std::optional<std::uint64_t> index_requests = 0;
  std::vector<CacheView> caches = {};  ///< that keep their bytes
  bool lacks_index() const { return index_requests != 0; }
};

/// Whether a source below `node`, or itself, lacks an index of an object.
bool lacks_index_below(const Node& node, const IterContext& context);

/// The forecast for one epoch of the pipeline up to `node`. Reads no rows; may ask stores for the versions of
/// objects and for indexes. Throws what opening the sources throws.
NetworkForecast network_forecast(const Node& node, const IterContext& context);

/// `forecast` in lines "name: fact"; none where nothing is read over a network.
std::vector<std::string> facts_of(const NetworkForecast& forecast);

}  // namespace torch_distinput
