// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <glob.h>

#include "remote/url.h"
#include "sources/records/url_names.h"
#include "sources/sources.h"
#include "torch_distinput/error.h"

namespace torch_distinput::sources {
namespace {

using Matches = std::unique_ptr<::glob_t, void (*)(::glob_t*)>;

/// Whether an error in a folder stops the search: a missing folder holds no match, but a folder without read
/// permission could hide some.
int stops(const char*, int error) { return error == EACCES ? 1 : 0; }

std::vector<std::string> match_urls(const std::string& pattern) {
  std::vector<std::string> names = urls_of(pattern, "list_files");
  check_objects(names, "list_files");
  return names;
}

std::vector<std::string> match(const std::string& pattern) {
  if (is_url(pattern)) return match_urls(pattern);
  ::glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_MARK, stops, &found);
  const Matches matches(&found, ::globfree);
  if (result == GLOB_NOSPACE) throw std::bad_alloc();
  if (result == GLOB_ABORTED) {
    throw SystemError("list_files: permission to read a folder of the pattern `" + pattern + "` is denied.",
                      EACCES);
  }
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::erase_if(names, [](const std::string& name) { return name.ends_with('/'); });  // folders
  if (names.empty()) throw NotFoundError("list_files: no file matches the pattern `" + pattern + "`.");
  return names;
}

}  // namespace

NodePtr list_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) {
    if (pattern.empty() || pattern.find('\0') != std::string::npos) {
      throw InvalidArgumentError("list_files: a pattern must be a text without NUL bytes, but one is `" +
                                 std::string(pattern.c_str()) + "`.");
    }
    std::vector<std::string> matches = match(pattern);
    std::move(matches.begin(), matches.end(), std::back_inserter(names));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return file_names(std::move(names));
}

}  // namespace torch_distinput::sources
