// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/shared_list.h"

#include <optional>
#include <span>
#include <string_view>

#include "io/job_share.h"
#include "io/packed.h"

namespace torch_distinput {
namespace {

/// About two million objects.
constexpr std::uint64_t kMostListBytes = std::uint64_t{255} << 20;

std::vector<char> pack_objects(const std::vector<ListedObject>& objects) {
  std::string bytes;
  for (const ListedObject& object : objects) {
    pack(bytes, object.url);
    pack(bytes, object.size);
    pack(bytes, object.tag);
  }
  return {bytes.begin(), bytes.end()};
}

std::optional<std::vector<ListedObject>> unpack_objects(std::span<const char> bytes) {
  std::vector<ListedObject> objects;
  Unpacker unpacker(bytes);
  while (!unpacker.done()) {
    std::string_view url;
    std::string_view tag;
    std::uint64_t size = 0;
    if (!unpacker.text(url) || !unpacker.number(size) || !unpacker.text(tag)) return std::nullopt;
    objects.push_back({.url = std::string(url), .size = size, .tag = std::string(tag)});
  }
  return objects;
}

}  // namespace

std::vector<ListedObject> ask_in_job(const std::string& what,
                                     const std::function<std::vector<ListedObject>(const Poll&)>& ask,
                                     const Poll& poll) {
  std::vector<ListedObject> objects;
  const auto accept = [&](std::span<const char> bytes) {
    auto found = unpack_objects(bytes);
    if (!found) return false;
    objects = *std::move(found);
    return true;
  };
  const auto make = [&](const std::function<void(std::uint64_t)>& report) {
    std::uint64_t turns = 0;
    // The others wait as long as it goes on.
    objects = ask([&] {
      report(++turns);
      if (poll) poll();
    });
    return pack_objects(objects);
  };
  share_in_job(what, kMostListBytes, accept, make, poll);
  return objects;
}

}  // namespace torch_distinput
