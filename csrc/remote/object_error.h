// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace torch_distinput {

/// An object of a store cannot be read, written or listed.
class ObjectError : public std::runtime_error {
 public:
  enum class Kind {
    kMissing,      ///< 404, 410: there is no such object or bucket
    kDenied,       ///< 401, 403: the credentials do not allow it, or there are none
    kExpired,      ///< as kDenied, but with credentials that expired: `ObjectStore::refresh` may help
    kChanged,      ///< 412, another tag or size: the object was replaced
    kRefused,      ///< another 4xx, or an answer that no store should give
    kUnavailable,  ///< no progress within the time limit
    kUnusable,     ///< a URL or option that cannot work; libcurl is missing
  };
  /// What is known of the last answer.
  struct Details {
    std::string url = {};  ///< without its query
    int status = 0;        ///< 0: there was none
    std::string code = {};
    std::string request_id = {};
    int tries = 0;
    double seconds = 0.0;
  };

  /// An error whose message is `problem` and what `details` has.
  ObjectError(Kind kind, const std::string& problem, Details details)
      : std::runtime_error(message(problem, details)),
        kind_(kind),
        problem_(problem),
        details_(std::move(details)) {}

  Kind kind() const noexcept { return kind_; }
  /// What is wrong, without what `details` has.
  const std::string& problem() const noexcept { return problem_; }
  const Details& details() const noexcept { return details_; }

 private:
  static std::string message(const std::string& problem, const Details& details);

  Kind kind_;
  std::string problem_;
  Details details_;
};

}  // namespace torch_distinput
