// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/curl_library.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include <dlfcn.h>

namespace torch_distinput {
namespace {

namespace fs = std::filesystem;

std::mutex folders_mutex;
std::vector<std::string>& folders() {
  static auto& list = *new std::vector<std::string>;
  return list;
}

/// The names that the library may have, the preferred one first.
std::vector<std::string> candidates() {
  if (const char* named = std::getenv("TDI_LIBCURL"); named != nullptr && *named != '\0') return {named};
  // The wheel's goes first: whoever installed it has a libcurl of 8.x, which takes half the system calls
  // of 7.x for TLS, and systems keep theirs for years.
  std::vector<std::string> names;
  const std::lock_guard lock(folders_mutex);
  for (const std::string& folder : folders()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(folder) / "pycurl.libs", ignored)) {
      if (entry.path().filename().string().starts_with("libcurl")) names.push_back(entry.path().string());
    }
  }
  names.emplace_back("libcurl.so.4");
  return names;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw std::runtime_error(std::string("libcurl: it is too old: it lacks ") + name +
                             "; version 7.68 or later is needed");
}

curl::Functions functions_of(void* library) {
  curl::Functions found{};
  find(library, "curl_global_init", found.global_init);
  find(library, "curl_version", found.version);
  find(library, "curl_easy_init", found.easy_init);
  find(library, "curl_easy_cleanup", found.easy_cleanup);
  find(library, "curl_easy_setopt", found.easy_setopt);
  find(library, "curl_easy_getinfo", found.easy_getinfo);
  find(library, "curl_easy_strerror", found.easy_strerror);
  find(library, "curl_slist_append", found.slist_append);
  find(library, "curl_slist_free_all", found.slist_free_all);
  find(library, "curl_multi_init", found.multi_init);
  find(library, "curl_multi_cleanup", found.multi_cleanup);
  find(library, "curl_multi_setopt", found.multi_setopt);
  find(library, "curl_multi_add_handle", found.multi_add_handle);
  find(library, "curl_multi_remove_handle", found.multi_remove_handle);
  find(library, "curl_multi_socket_action", found.multi_socket_action);
  find(library, "curl_multi_info_read", found.multi_info_read);
  return found;
}

curl::Functions load() {
  std::string problems;
  for (const std::string& name : candidates()) {
    // The library stays for the life of the process: its threads and atexit handlers may outlive us.
    if (void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      const curl::Functions found = functions_of(library);
      if (found.global_init(curl::kGlobalDefault) != curl::kOk)
        throw std::runtime_error("libcurl: it cannot be initialized");
      return found;
    }
    if (const char* problem = ::dlerror()) problems += std::string(problems.empty() ? "" : "; ") + problem;
  }
  throw std::runtime_error("libcurl is needed to read from URLs, but was not found (" + problems +
                           "); install it (apt install libcurl4), or pip install 'torch_distinput[remote]'");
}

}  // namespace

const curl::Functions& curl_library() {
  static const curl::Functions functions = load();  // a call that throws is made again by the next caller
  return functions;
}

std::string curl_version() { return curl_library().version(); }

void look_for_curl_in(const std::string& folder) {
  const std::lock_guard lock(folders_mutex);
  folders().push_back(folder);
}

}  // namespace torch_distinput
