// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

#include "torch_distinput/api.h"

/// \file
/// Typed errors. A wrong argument is a `c10::ValueError` or `c10::TypeError` (ValueError and TypeError in
/// Python). Situations that callers must tell apart have a type of their own, named as in tf.errors. Every
/// message names the op, the parameter or row, the rule and the value that broke it.

namespace torch_distinput {

/// The end of the data, raised by `get_next`. Python: an IndexError.
class TDI_API OutOfRangeError : public c10::IndexError {
 public:
  explicit OutOfRangeError(const std::string& message);
};

/// A value of the right type that cannot be used, such as an empty `Optional`. Python: a ValueError.
class TDI_API InvalidArgumentError : public c10::ValueError {
 public:
  explicit InvalidArgumentError(const std::string& message);
};

/// An encoded image is damaged, truncated, too large or of an unknown format. `problem()` is what the
/// decoder says of it, without op and row. Python: an InvalidArgumentError and an OSError, as Pillow raises,
/// with an OSError of `problem()` as its cause.
class TDI_API DamagedPictureError : public InvalidArgumentError {
 public:
  DamagedPictureError(const std::string& message, std::string problem);
  const std::string& problem() const noexcept { return problem_; }

 private:
  std::string problem_;
};

/// Rows of a batch differ in their shape. Python: a ValueError and a RuntimeError, as torch.stack raises.
class TDI_API UnequalRowsError : public c10::ValueError {
 public:
  explicit UnequalRowsError(const std::string& message);
};

/// A file or a source that can be sharded is missing. Python: a FileNotFoundError.
class TDI_API NotFoundError : public c10::Error {
 public:
  explicit NotFoundError(const std::string& message);
};

/// The system refuses to read a file; `code()` is its errno. Python: an OSError, or the
/// subclass that goes with the code (PermissionError, IsADirectoryError).
class TDI_API SystemError : public c10::Error {
 public:
  SystemError(const std::string& message, int code);
  /// The errno of the failed call, such as EACCES.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

/// An object of a store (a URL) cannot be read, listed or written, or was replaced while it was read. The
/// message has all that follows. Python: an OSError with these as attributes.
class TDI_API RemoteError : public c10::Error {
 public:
  /// What the server said. A URL is without its query.
  struct Details {
    std::string url;
    int status = 0;          ///< of HTTP; 0: no answer came
    std::string code;        ///< of the service: "AccessDenied"; "" where it tells none
    std::string request_id;  ///< in the service's logs; "" where it tells none
  };

  RemoteError(const std::string& message, Details details);
  const Details& details() const noexcept { return details_; }

 private:
  Details details_;
};

/// A call in a state that does not allow it, such as `next` after `close`. Python: a RuntimeError.
class TDI_API FailedPreconditionError : public c10::Error {
 public:
  explicit FailedPreconditionError(const std::string& message);
};

/// Code that a user gave a pipeline threw an exception that is not a c10::Error; the message names op and
/// row. The exception itself is nested in it (`std::rethrow_if_nested`). A c10::Error keeps its type, and op
/// and row are added to its context. Python: a RuntimeError.
class TDI_API UserCodeError : public c10::Error {
 public:
  explicit UserCodeError(const std::string& message);
};

/// Replicas of `Strategy::run` failed; the message has what each of them threw.
class TDI_API ReplicaError : public c10::Error {
 public:
  ReplicaError(const std::string& message, std::vector<std::exception_ptr> errors);
  /// What each local replica threw; null for one that returned. The reference lives as long as the error; of
  /// a temporary, a copy.
  const std::vector<std::exception_ptr>& errors() const& noexcept { return errors_; }
  std::vector<std::exception_ptr> errors() const&& { return errors_; }

 private:
  std::vector<std::exception_ptr> errors_;
};

/// Another process failed, left or disagrees; the message names its rank and what it reported. Python: a
/// RuntimeError with the attribute `disagreed_on`.
class TDI_API DistributedDatasetError : public c10::Error {
 public:
  explicit DistributedDatasetError(const std::string& message, std::string disagreed_on = {});
  /// The name of the fact on which the processes do not agree, as in the message; empty for other errors.
  std::string disagreed_on() const { return disagreed_on_; }

 private:
  std::string disagreed_on_;
};

}  // namespace torch_distinput
