// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/storage.h"

namespace torch_distinput {

/// Gets tokens for the person of the Application Default Credentials: the file that
/// GOOGLE_APPLICATION_CREDENTIALS names, else the one that `gcloud auth application-default login` writes.
/// Empty where that is not there, or is not of a person: service accounts sign with RSA, and machines ask a
/// server of their own; both are left to the caller's callback. A call throws ObjectError where Google gives
/// no token, std::runtime_error where its answer has none.
CredentialCallback google_user();

}  // namespace torch_distinput
