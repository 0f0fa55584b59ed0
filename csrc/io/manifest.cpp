// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/manifest.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/current_poll.h"
#include "base/of_process.h"
#include "base/polling.h"
#include "io/crc32c.h"
#include "io/job_share.h"
#include "io/packed.h"
#include "io/whole_object.h"

namespace torch_distinput {
namespace {

constexpr std::string_view kManifestMagic = "TDIMANI1";

/// One manifest, as far as nobody has taken it.
struct Manifest {
  std::timed_mutex mutex;  ///< held by the thread that reads it, too
  bool is_read = false;
  ManifestEntries left;
};

struct Manifests {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Manifest>> known;  ///< by URL
};

Manifests& manifests() {
  static auto& all = *new OfProcess<Manifests>;
  return all.get();
}

ManifestEntries read_manifest(const std::string& url) {
  ManifestEntries entries;
  const auto take = [&](std::span<const char> bytes) {
    auto found = bytes.empty() ? ManifestEntries() : decode_manifest(bytes);
    if (!found) return false;
    entries = *std::move(found);
    return true;
  };
  const auto make = [&](const std::function<void(std::uint64_t)>&) {
    std::vector<char> bytes = read_whole_object(url, kMostManifest).value_or(std::vector<char>());
    if (take(bytes)) return bytes;
    return std::vector<char>();  // as if there were none
  };
  share_in_job("manifest " + url, kMostManifest, take, make, current_poll());
  return entries;
}

}  // namespace

std::string manifest_url(const std::string& url, const std::string& kind) {
  return url.substr(0, url.rfind('/') + 1) + "." + kind + ".tdi-manifest";
}

std::string encode_manifest(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string bytes(kManifestMagic);
  for (const auto& [name, content] : entries) {
    pack(bytes, name);
    pack(bytes, content);
  }
  pack(bytes, std::uint64_t{crc32c(bytes)});
  return bytes;
}

std::optional<ManifestEntries> decode_manifest(std::span<const char> bytes) {
  constexpr std::size_t kFrame = kManifestMagic.size() + sizeof(std::uint64_t);
  if (bytes.size() < kFrame || std::string_view(bytes.data(), kManifestMagic.size()) != kManifestMagic)
    return std::nullopt;
  std::uint64_t crc = 0;
  Unpacker end(bytes.last(sizeof(crc)));
  if (!end.number(crc) || crc32c(bytes.first(bytes.size() - sizeof(crc))) != crc) return std::nullopt;
  ManifestEntries entries;
  Unpacker unpacker(bytes.subspan(kManifestMagic.size(), bytes.size() - kFrame));
  while (!unpacker.done()) {
    std::string_view name;
    std::string_view content;
    if (!unpacker.text(name) || !unpacker.text(content)) return std::nullopt;
    entries.insert_or_assign(std::string(name), std::vector<char>(content.begin(), content.end()));
  }
  return entries;
}

std::optional<std::vector<char>> take_from_manifest(const std::string& url, const std::string& kind) {
  const std::string place = manifest_url(url, kind);
  std::shared_ptr<Manifest> manifest;
  {
    Manifests& all = manifests();
    const std::lock_guard lock(all.mutex);
    std::shared_ptr<Manifest>& known = all.known[place];
    if (known == nullptr) known = std::make_shared<Manifest>();
    manifest = known;
  }
  std::unique_lock lock(manifest->mutex, std::defer_lock);
  while (!lock.try_lock_for(kPollInterval)) {
    if (current_poll()) current_poll()();
  }
  if (!manifest->is_read) manifest->left = read_manifest(place);
  manifest->is_read = true;
  auto found = manifest->left.extract(url.substr(url.rfind('/') + 1));
  return found ? std::optional(std::move(found.mapped())) : std::nullopt;
}

void forget_manifests() {
  Manifests& all = manifests();
  const std::lock_guard lock(all.mutex);
  all.known.clear();
}

}  // namespace torch_distinput
