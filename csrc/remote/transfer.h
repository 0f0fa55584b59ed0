// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "remote/concurrency_limit.h"
#include "remote/http.h"
#include "remote/object_error.h"
#include "remote/object_store.h"

namespace torch_distinput {

/// One exchange with a store: what to ask, and what to do with the answer. The engine carries it out with as
/// many attempts as it takes, and calls everything but the destructor on its thread, one attempt at a time.
class Transfer {
 public:
  virtual ~Transfer() = default;

  /// The server that is asked, as "https://host:port": requests to one share connections and a limit.
  virtual std::string origin() const = 0;
  /// How long the transfer may make no progress.
  virtual Nanos patience() const = 0;
  /// Whether a repetition asks only for what has not come; else it begins anew.
  virtual bool goes_on() const = 0;
  /// The request for what is still missing. Throws ObjectError.
  virtual HttpRequest request(SigningTime now) = 0;

  /// What to do with a response.
  enum class Verdict {
    kTake,      ///< the body is what was asked for
    kDone,      ///< the head has all that was asked for
    kRedirect,  ///< the next request goes to another place
    kRead,      ///< it is an error; its body may tell more
    kRepeat,    ///< it is not an answer to the request: ask again
  };
  /// Judges the head of a response. Throws ObjectError where asking again is useless.
  virtual Verdict judge(const HttpHead& head) = 0;
  /// Takes the next bytes of the body. False: they are more than were asked for.
  virtual bool take(std::span<const char> bytes) = 0;
  /// Whether the body that was taken is whole. `ended`: the answer came to its end, and was not cut off.
  virtual bool is_whole(bool ended) const = 0;

  /// What to do with an error of the service.
  struct Refusal {
    bool is_throttled = false;
    Nanos retry_after = -1;  ///< -1: the service does not tell
  };
  /// Reads an error of the service with the beginning of its body. Throws ObjectError where asking again is
  /// useless.
  virtual Refusal refuse(const HttpHead& head, std::string_view body, int tries) = 0;
  /// The error where no attempt succeeded in time: `problem` is what happened last.
  virtual ObjectError give_up(const std::string& problem, int tries, double seconds) = 0;

  /// The transfer is over; `error` is null where it succeeded. Called once, last.
  virtual void finish(std::exception_ptr error) = 0;
};
using TransferPtr = std::shared_ptr<Transfer>;

}  // namespace torch_distinput
