// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/record_index.h"

namespace torch_distinput {

/// The stored form of an index: magic, version, format, stamp of the file, offsets, CRC32C of all that.
std::vector<char> encode_index(const RecordIndex& index);
/// The index that `bytes` store; nullopt unless they are whole, of this version, of this `format` and of the
/// file with this `stamp`. Any bytes may come.
std::optional<RecordIndex> decode_index(std::span<const char> bytes, const RecordFormat& format,
                                        const FileStamp& stamp);

/// Where the index of `path` may lie, in the order of preference: a hidden file beside it, then one in the
/// user's cache folder (`$XDG_CACHE_HOME`, else `~/.cache`), which has its name from the file's full path.
std::vector<std::string> index_places(const std::string& path, const RecordFormat& format);

/// The stored index of `path`, or nullopt where there is none that fits.
std::optional<RecordIndex> load_index(const std::string& path, const RecordFormat& format,
                                      const FileStamp& stamp);
/// Stores `index` at the first place that can be written to: whole or not at all. An index that cannot be
/// stored is built again next time.
void store_index(const std::string& path, const RecordIndex& index) noexcept;

}  // namespace torch_distinput
