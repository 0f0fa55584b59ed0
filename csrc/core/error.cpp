// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/error.h"

#include <utility>

namespace torch_distinput {
namespace {

c10::SourceLocation here() { return {"", "", 0}; }

}  // namespace

OutOfRangeError::OutOfRangeError(const std::string& message) : c10::IndexError(here(), message) {}
InvalidArgumentError::InvalidArgumentError(const std::string& message) : c10::ValueError(here(), message) {}
DamagedPictureError::DamagedPictureError(const std::string& message, std::string problem)
    : InvalidArgumentError(message), problem_(std::move(problem)) {}
UnequalRowsError::UnequalRowsError(const std::string& message) : c10::ValueError(here(), message) {}
NotFoundError::NotFoundError(const std::string& message) : c10::Error(here(), message) {}
SystemError::SystemError(const std::string& message, int code) : c10::Error(here(), message), code_(code) {}
RemoteError::RemoteError(const std::string& message, Details details)
    : c10::Error(here(), message), details_(std::move(details)) {}
FailedPreconditionError::FailedPreconditionError(const std::string& message) : c10::Error(here(), message) {}
UserCodeError::UserCodeError(const std::string& message) : c10::Error(here(), message) {}
ReplicaError::ReplicaError(const std::string& message, std::vector<std::exception_ptr> errors)
    : c10::Error(here(), message), errors_(std::move(errors)) {}
DistributedDatasetError::DistributedDatasetError(const std::string& message, std::string disagreed_on)
    : c10::Error(here(), message), disagreed_on_(std::move(disagreed_on)) {}

}  // namespace torch_distinput
