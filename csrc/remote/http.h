// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace torch_distinput {

/// One HTTP request. Headers may hold secrets: a request is never printed.
struct HttpRequest {
  std::string method = "GET";
  std::string url = {};  ///< http or https, encoded
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::uint64_t expected = 0;  ///< bytes that the answer may have; 0: few, or unknown
};

/// Status and headers of a response.
struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> headers = {};  ///< names in lower case; of several, the last
  std::string url = {};                             ///< that was asked

  /// The value of a header; "" where there is none. `name` is in lower case.
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

/// Bytes [offset, offset + size) of an object.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t end() const noexcept { return offset + size; }
  bool operator==(const ByteRange&) const = default;
};

}  // namespace torch_distinput
