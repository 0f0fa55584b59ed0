// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/shared_key.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <map>
#include <string_view>

#include "remote/base64.h"
#include "remote/sha256.h"
#include "remote/text.h"

namespace torch_distinput {
namespace {

constexpr std::array<std::string_view, 11> kStandardHeaders{
    "content-encoding",  "content-language", "content-length", "content-md5",         "content-type", "date",
    "if-modified-since", "if-match",         "if-none-match",  "if-unmodified-since", "range"};

/// "\nname:value,other" of each name, with its values in order.
std::string query_text(std::vector<std::pair<std::string, std::string>> query) {
  std::sort(query.begin(), query.end());
  std::string text;
  const std::string* last = nullptr;
  for (const auto& [name, value] : query) {
    text += last != nullptr && *last == name ? "," : "\n" + name + ":";
    text += value;
    last = &name;
  }
  return text;
}

}  // namespace

std::string http_date(SigningTime time) {
  constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  // Not by strftime: its names of days and months are those of the user's language.
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                kDays.at(static_cast<std::size_t>(parts.tm_wday)), parts.tm_mday,
                kMonths.at(static_cast<std::size_t>(parts.tm_mon)), parts.tm_year + 1900, parts.tm_hour,
                parts.tm_min, parts.tm_sec);
  return text.data();
}

std::string shared_key_text(const HttpRequest& request, const AzureRequest& what) {
  std::map<std::string, std::string, std::less<>> headers;
  for (const auto& [name, value] : request.headers) headers[lower(name)] = trimmed(value);
  if (!request.body.empty()) headers["content-length"] = std::to_string(request.body.size());
  std::string text = request.method + "\n";
  for (const std::string_view name : kStandardHeaders) {
    const auto found = headers.find(name);
    text += (found == headers.end() ? "" : found->second) + "\n";
  }
  for (const auto& [name, value] : headers) {
    if (name.starts_with("x-ms-")) text.append(name).append(":").append(value).append("\n");
  }
  return text + "/" + what.account + what.path + query_text(what.query);
}

void sign_shared_key(HttpRequest& request, const AzureRequest& what, const std::string& key) {
  const Sha256 signature = hmac_sha256(key, shared_key_text(request, what));
  request.headers.emplace_back("Authorization",
                               "SharedKey " + what.account + ":" + base64_encode(bytes_of(signature)));
}

}  // namespace torch_distinput
