// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "io/file.h"

namespace torch_distinput {

/// A file of tokens and nothing else, and the documents in it.
struct TokenFile {
  std::string data_path;
  FileStamp data_stamp;
  FileStamp stamp;  ///< of the index, where there is one, else `data_stamp`
  c10::ScalarType dtype = c10::kUInt16;
  std::int64_t tokens = 0;
  std::optional<std::vector<std::int64_t>> ends;  ///< the end of each document, where an index tells
};

/// Looks at a token file. A path that ends in `.idx` is an index as Megatron-LM writes it, with its tokens in
/// the
/// `.bin` beside; any other file has tokens of type `dtype`, in the machine's byte order (little). Throws
/// FileError for a file whose size or index is impossible, and where `dtype` is unset or not that of the
/// index.
TokenFile open_token_file(const std::string& path, std::optional<c10::ScalarType> dtype);

/// Returns the ends of the documents of a file: a document ends after each `token`, and at the end of the
/// file. Reads the file once, or takes what another process on the host has found, and calls `look` now and
/// then. Throws FileError.
std::vector<std::int64_t> find_documents(const TokenFile& file, std::int64_t token,
                                         const std::function<void()>& look);

}  // namespace torch_distinput
