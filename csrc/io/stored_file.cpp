// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/stored_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/hash.h"
#include "io/file.h"
#include "io/file_error.h"

namespace torch_distinput {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tdi-index";

std::string hex(std::uint64_t value) {
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::optional<fs::path> cache_folder() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && folder[0] == '/') {
    return fs::path(folder) / "torch_distinput";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return std::nullopt;
  return fs::path(home) / ".cache" / "torch_distinput";
}

bool write_whole(const fs::path& place, std::span<const char> bytes) {
  std::string temporary = place.string() + ".XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0) return false;
  bool written = true;
  while (written && !bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    written = count > 0;
    if (written) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  written = ::fchmod(descriptor, 0644) == 0 && written;
  written = ::close(descriptor) == 0 && written;
  if (written && ::rename(temporary.c_str(), place.c_str()) == 0) return true;
  ::unlink(temporary.c_str());
  return false;
}

/// The bytes of the file `path`; empty if it is not a regular file. Throws FileError.
std::vector<char> read_whole(const std::string& path) {
  const File file(path);
  const FileStamp stamp = file.stamp();
  if (!stamp.is_regular) return {};
  std::vector<char> bytes(static_cast<std::size_t>(stamp.size));
  bytes.resize(file.read(bytes, 0));
  return bytes;
}

}  // namespace

std::vector<std::string> stored_places(const std::string& path, const std::string& kind) {
  const fs::path full = fs::absolute(path);
  const std::string ending = "." + kind + std::string(kSuffix);
  std::vector<std::string> places{(full.parent_path() / ("." + full.filename().string() + ending)).string()};
  if (const auto folder = cache_folder())
    places.push_back((*folder / (hex(hash_of(full.string())) + ending)).string());
  return places;
}

void load_stored(const std::string& path, const std::string& kind,
                 const std::function<bool(std::span<const char>)>& accept) {
  for (const std::string& place : stored_places(path, kind)) {
    try {
      if (accept(read_whole(place))) return;
    } catch (const FileError&) {
      // Missing or not readable: try the next place.
    }
  }
}

void store_beside(const std::string& path, const std::string& kind, std::span<const char> bytes) noexcept {
  try {
    for (const fs::path place : stored_places(path, kind)) {
      std::error_code ignored;
      if (place.parent_path().filename() == "torch_distinput")
        fs::create_directories(place.parent_path(), ignored);
      if (write_whole(place, bytes)) return;
    }
  } catch (...) {
    // Without it, the next run makes it again; nothing else is lost.
  }
}

}  // namespace torch_distinput
