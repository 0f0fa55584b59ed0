// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace torch_distinput {

/// The URLs that `pattern`, a URL, stands for: those of its braces in their order (`expand_braces`), and for
/// one with wildcards the objects that match it, sorted. Others need not be there. The query of an http URL
/// has neither braces nor wildcards. `op` begins the messages of errors: InvalidArgumentError for bad braces,
/// NotFoundError where no object matches, RemoteError where a store cannot be listed. May wait for stores.
std::vector<std::string> urls_of(const std::string& pattern, const std::string& op);

/// `names`, each URL replaced by those that it stands for. Throws as `urls_of`.
std::vector<std::string> expand_urls(const std::vector<std::string>& names, const std::string& op);

/// Throws NotFoundError or RemoteError, with `op` in front, unless there are objects at all of `urls`.
void check_objects(const std::vector<std::string>& urls, const std::string& op);

/// The name of a file for messages: a URL without what may be secret in it.
std::string shown_name(const std::string& name);

}  // namespace torch_distinput
