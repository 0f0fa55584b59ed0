// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Returns the paths where something of this `kind` that is known of the file `path` may be stored, in order
/// of preference: a hidden file next to it, then a file in the user's cache folder (`$XDG_CACHE_HOME`, else
/// `~/.cache`) named after a hash of the absolute path; of an object only the second, after its URL without a
/// query. The functions here are safe from any thread.
std::vector<std::string> stored_places(const std::string& path, const std::string& kind);

/// The URL beside the object at `url` where it may be stored for all: with "." before its name and an ending;
/// nullopt where `url` has a query, which is of this object alone (a signature, say).
TDI_API std::optional<std::string> stored_url(const std::string& url, const std::string& kind);

/// Shows `accept` the bytes at each of these places, until it returns true. They may be anything. A file is
/// passed over that cannot be read, has more than `most` bytes, belongs neither to the user nor to the owner
/// of `path` nor to root, or may be written to by somebody who may not write to `path`. Of an object the
/// manifest of its folder and its `stored_url` come last, and what is accepted of them is kept in the cache
/// folder.
TDI_API void load_stored(const std::string& path, const std::string& kind, std::uint64_t most,
                         const std::function<bool(std::span<const char>)>& accept);

/// Whether the environment lets `store_beside` write: it does not have `TORCH_DISTINPUT_WRITE_INDEX=0`.
TDI_API bool may_store() noexcept;

/// Stores `bytes` at the first place that can be written to, atomically (by a rename), with the mode of
/// `path` under the umask, if `may_store`. What cannot be stored is not an error: it is made again when it is
/// next needed.
TDI_API void store_beside(const std::string& path, const std::string& kind,
                          std::span<const char> bytes) noexcept;

}  // namespace torch_distinput
