// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/object_error.h"

#include <array>
#include <cstdio>

namespace torch_distinput {

std::string ObjectError::message(const std::string& problem, const Details& details) {
  std::string known;
  const auto add = [&known](const std::string& text) { known += (known.empty() ? "" : ", ") + text; };
  if (details.status > 0) add("status " + std::to_string(details.status));
  if (!details.code.empty()) add(details.code);
  if (!details.request_id.empty()) add("request " + details.request_id);
  if (details.tries > 1) {
    std::array<char, 32> seconds;
    std::snprintf(seconds.data(), seconds.size(), "%.1f s", details.seconds);
    add("after " + std::to_string(details.tries) + " tries in " + seconds.data());
  }
  const std::string subject = details.url.empty() ? "" : details.url + ": ";
  return subject + problem + (known.empty() ? "" : " (" + known + ")");
}

}  // namespace torch_distinput
