// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch_distinput/api.h"

/// \file
/// A manifest is one object with what is stored of all objects of a folder: one request instead of one for
/// each. It holds no versions that readers trust: what it has of an object names the version that it is of.

namespace torch_distinput {

/// Bytes of the largest manifest. With more, what is stored of an object is worth a request of its own.
inline constexpr std::uint64_t kMostManifest = std::uint64_t{64} << 20;

/// What is stored of objects, by the last part of their URLs.
using ManifestEntries = std::unordered_map<std::string, std::vector<char>>;

/// The URL of the manifest of this `kind` for the folder of the object at `url`. Functions are safe from any
/// thread.
TDI_API std::string manifest_url(const std::string& url, const std::string& kind);
/// The stored form of a manifest, with its checksum.
TDI_API std::string encode_manifest(const std::vector<std::pair<std::string, std::string>>& entries);
/// nullopt unless `bytes`, which may be anything, are a manifest.
TDI_API std::optional<ManifestEntries> decode_manifest(std::span<const char> bytes);

/// What the manifest of the object's folder has of this `kind` for the object at `url`, once: then this
/// process has it no more. nullopt where there is no manifest or it has nothing. The ranks of a job on this
/// host read a manifest once. May wait for a server and calls the thread's `current_poll` meanwhile.
std::optional<std::vector<char>> take_from_manifest(const std::string& url, const std::string& kind);
/// Frees what was read of manifests and not taken; the next one who asks reads them again.
TDI_API void forget_manifests();

}  // namespace torch_distinput
