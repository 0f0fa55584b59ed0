// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_errors.h"

#include "torch_distinput/error.h"

namespace torch_distinput {

void throw_for_user(const FileError& error, const std::string& op) {
  const std::string message = op + ": " + error.what() + ".";
  switch (error.kind()) {
    case FileError::Kind::kMissing:
      throw NotFoundError(message);
    case FileError::Kind::kSystem:
      throw SystemError(message, error.code());
    case FileError::Kind::kRemote: {
      const ObjectError::Details& said = static_cast<const RemoteFileError&>(error).object().details();
      throw RemoteError(message, {said.url, said.status, said.code, said.request_id});
    }
    case FileError::Kind::kDamaged:
    case FileError::Kind::kChanged:
      break;
  }
  throw InvalidArgumentError(message);
}

}  // namespace torch_distinput
