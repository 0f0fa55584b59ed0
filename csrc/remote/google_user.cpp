// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/google_user.h"

#include <charconv>
#include <chrono>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/current_poll.h"
#include "remote/credentials.h"
#include "remote/engine.h"
#include "remote/json_reader.h"
#include "remote/signing_v4.h"
#include "remote/stores.h"
#include "remote/text_transfer.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

constexpr const char* kTokenServer = "https://oauth2.googleapis.com/token";
constexpr Nanos kTokenPatience = 60 * kSecond;
constexpr std::streamsize kMostFileBytes = 1 << 16;

std::string file_text(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  std::string text(kMostFileBytes, '\0');
  file.read(text.data(), kMostFileBytes);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// The members of a JSON object that are no objects or arrays; none where `text` is not JSON.
StorageOptions members_of(std::string_view text) {
  StorageOptions members;
  try {
    read_json(text, [&](const JsonPath& path, const std::string& value) {
      if (path.size() == 1) members[path[0]] = value;
    });
  } catch (const std::runtime_error&) {
    return {};
  }
  return members;
}

StorageOptions default_credentials() {
  const std::string named = environment("GOOGLE_APPLICATION_CREDENTIALS");
  const std::string folder =
      first_of({environment("CLOUDSDK_CONFIG"), environment("HOME") + "/.config/gcloud"});
  return members_of(file_text(named.empty() ? folder + "/application_default_credentials.json" : named));
}

StorageOptions token_of(const std::string& answer) {
  const StorageOptions members = members_of(answer);
  const std::string lifetime = option(members, "expires_in");
  std::int64_t seconds = 0;
  std::from_chars(lifetime.data(), lifetime.data() + lifetime.size(), seconds);
  StorageOptions token{{"token", option(members, "access_token")}};
  if (token["token"].empty()) throw std::runtime_error("Google's answer to a refresh token has no token");
  if (seconds > 0 && seconds < (1 << 30)) {
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    token["expires"] = std::to_string(now + seconds);
  }
  return token;
}

/// Exchanges the refresh token of `user` for one that services take.
StorageOptions exchange(const StorageOptions& user) {
  const std::string url = first_of({option(user, "token_uri"), kTokenServer});
  HttpRequest request{.method = "POST", .url = url};
  request.headers.emplace_back("Content-Type", "application/x-www-form-urlencoded");
  request.body = canonical_query({{"grant_type", "refresh_token"},
                                  {"client_id", option(user, "client_id")},
                                  {"client_secret", option(user, "client_secret")},
                                  {"refresh_token", option(user, "refresh_token")}});
  const auto place = std::make_shared<Place>(make_store(url, {}), url, kTokenPatience);
  const auto transfer =
      std::make_shared<TextTransfer>(place, [request](SigningTime) -> HttpRequest { return request; });
  Engine::of_process().begin(transfer);
  transfer->wait(current_poll());
  return token_of(transfer->body());
}

}  // namespace

CredentialCallback google_user() {
  const StorageOptions user = default_credentials();
  if (option(user, "type") != "authorized_user" || option(user, "refresh_token").empty()) return {};
  return [user](const std::string&) { return exchange(user); };
}

}  // namespace torch_distinput
