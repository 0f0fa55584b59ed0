// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/record_index.h"

namespace torch_distinput {

/// Returns the stored form of an index: magic, version, format, stamp of the file, offsets, and the CRC32C of
/// all of these. Little-endian. The functions here are safe from any thread.
std::vector<char> encode_index(const RecordIndex& index);
/// Returns the index stored in `bytes`; nullopt unless they are complete, of this version, of this `format`
/// and of the file with this `stamp`. `bytes` may hold anything: damage is detected, never trusted.
std::optional<RecordIndex> decode_index(std::span<const char> bytes, const RecordFormat& format,
                                        const FileStamp& stamp);

/// What an index depends on besides its file, as text: the version of the stored form, and the format.
std::string index_kind(const RecordFormat& format);
/// The most bytes of a stored index of a file.
std::uint64_t most_index_bytes(const RecordFormat& format, const FileStamp& stamp);

/// Returns the `stored_places` of the index of `path`.
std::vector<std::string> index_places(const std::string& path, const RecordFormat& format);

/// Returns the stored index of `file`; nullopt if there is none for this format and stamp, or if records
/// follow those that it has.
std::optional<RecordIndex> load_index(const File& file, const RecordFormat& format, const FileStamp& stamp);
/// Stores `index` at the first of `index_places` that is writable, atomically (by a rename). An index that
/// cannot be stored is not an error: it is built again when it is next needed.
void store_index(const std::string& path, const RecordIndex& index) noexcept;

}  // namespace torch_distinput
