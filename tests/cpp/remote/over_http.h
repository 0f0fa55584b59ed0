// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "remote/curl_library.h"
#include "remote/engine.h"
#include "remote/place.h"
#include "remote/range_transfer.h"
#include "runtime/buffer_pool.h"
#include "support/environment.h"
#include "support/http_server.h"

/// Helpers for tests that read from a real server.
namespace torch_distinput::http_testing {

using Kind = ObjectError::Kind;

/// `size` bytes that repeat themselves nowhere.
inline std::string random_object(std::size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// Ends a wait that takes too long.
inline Poll time_limit() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  return [end] {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("the wait took too long");
  };
}

/// Rules that make tests fast.
inline FetchRules fast_rules() {
  return {.stall = 10 * kSecond, .first_delay = kMillisecond, .most_delay = 20 * kMillisecond};
}

inline PlacePtr place_of(const std::string& url, Nanos patience = 10 * kSecond) {
  return std::make_shared<Place>(make_store(url, {}), url, patience);
}

inline std::shared_ptr<RangeTransfer> transfer_of(const PlacePtr& place, const ObjectVersion& version,
                                                  const ByteRange& range) {
  return std::make_shared<RangeTransfer>(place, version, range,
                                         host_pool()->acquire(static_cast<std::size_t>(range.size)));
}

/// The error that `call` throws; none where it throws none.
template <class Call>
std::optional<ObjectError> error_of(Call call) {
  try {
    call();
  } catch (const ObjectError& error) {
    return error;
  }
  return std::nullopt;
}

/// Skips tests where libcurl is not installed, and keeps proxies of the environment out of them.
class OverHttp : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      curl_library();
    } catch (const std::runtime_error& problem) {
      GTEST_SKIP() << problem.what();
    }
  }

 private:
  Variable no_proxy_{"NO_PROXY", "127.0.0.1"};
  Variable other_no_proxy_{"no_proxy", "127.0.0.1"};
};

}  // namespace torch_distinput::http_testing
