// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/url_names.h"

#include <algorithm>
#include <iterator>

#include "io/file.h"
#include "io/remote_files.h"
#include "remote/glob.h"
#include "remote/text.h"
#include "remote/url.h"
#include "sources/records/braces.h"
#include "sources/records/file_errors.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// Where the query of an http URL begins; the end where there is none.
std::size_t begin_of_query(const std::string& url) {
  return lower(url.substr(0, 4)) == "http" ? std::min(url.find_first_of("?#"), url.size()) : url.size();
}

std::vector<std::string> matching(const std::string& pattern, const std::string& op) {
  std::vector<std::string> urls =
      with_file_errors(op, [&] { return RemoteFiles::of_process().match(pattern); });
  if (urls.empty()) throw NotFoundError(op + ": no object matches the pattern `" + shown_url(pattern) + "`.");
  std::sort(urls.begin(), urls.end());
  return urls;
}

void move_to_end(std::vector<std::string> more, std::vector<std::string>& names) {
  std::move(more.begin(), more.end(), std::back_inserter(names));
}

}  // namespace

std::vector<std::string> urls_of(const std::string& pattern, const std::string& op) {
  const std::size_t end = begin_of_query(pattern);
  std::vector<std::string> urls;
  for (const std::string& one : expand_braces(pattern.substr(0, end), op)) {
    if (has_wildcard(one)) {
      move_to_end(matching(one, op), urls);
    } else {
      urls.push_back(one + pattern.substr(end));
    }
  }
  return urls;
}

std::vector<std::string> expand_urls(const std::vector<std::string>& names, const std::string& op) {
  std::vector<std::string> expanded;
  for (const std::string& name : names) {
    if (is_url(name)) {
      move_to_end(urls_of(name, op), expanded);
    } else {
      expanded.push_back(name);
    }
  }
  return expanded;
}

void check_objects(const std::vector<std::string>& urls, const std::string& op) {
  with_file_errors(op, [&] {
    will_open(urls);
    for (const std::string& url : urls) stamp_of(url);
  });
}

std::string shown_name(const std::string& name) { return is_url(name) ? shown_url(name) : name; }

}  // namespace torch_distinput
