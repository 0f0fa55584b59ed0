// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/user_object.h"

#include <algorithm>

#include "remote/object_error.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

/// The file system has no such object.
template <class Found>
Found found_at(const std::string& url, std::optional<Found> found) {
  if (found) return *std::move(found);
  throw ObjectError(ObjectError::Kind::kMissing, "there is no such object", {.url = shown_url(url)});
}

}  // namespace

ObjectVersion UserFileSystem::look(const std::string& url) const {
  check_process(url);
  const FileSystem::Object found = found_at(url, files_->look(url));
  return {found.size, found.version};
}

std::vector<ListedObject> UserFileSystem::list(const std::string& prefix) const {
  check_process(prefix);
  std::vector<ListedObject> result;
  for (FileSystem::Object& object : files_->list(prefix))
    result.push_back({std::move(object.url), object.size, std::move(object.version)});
  return result;
}

void UserFileSystem::read(const std::string& url, std::span<char> into, std::uint64_t offset) const {
  check_process(url);
  const std::size_t count = found_at(url, files_->read(url, into.data(), into.size(), offset));
  if (count == into.size()) return;
  throw ObjectError(ObjectError::Kind::kChanged,
                    "the file system returned " + std::to_string(count) + " of the " +
                        std::to_string(into.size()) + " bytes from " + std::to_string(offset) + " on",
                    {.url = shown_url(url)});
}

void UserFileSystem::check_process(const std::string& url) const {
  if (!fork_guard_.inherited()) return;
  throw ObjectError(
      ObjectError::Kind::kUnusable,
      "its `filesystem` was given before this process was forked, and cannot be used in it: give it "
      "to the child, or start workers with the method \"spawn\"",
      {.url = shown_url(url)});
}

std::size_t UserObject::read(std::span<char> into, std::uint64_t offset, const Poll& poll) {
  if (offset >= version_.size) return 0;
  into = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), version_.size - offset)));
  if (poll) poll();
  if (!into.empty()) files_->read(url_, into, offset);
  return into.size();
}

}  // namespace torch_distinput
