// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace torch_distinput {

/// What a URL of the Hugging Face Hub names.
struct HubPath {
  std::string repository;  ///< "datasets/owner/name", "spaces/owner/name", or "owner/name" of a model
  std::string revision;    ///< "main" where the URL names none
  std::string path;        ///< of a file or folder in the repository, not encoded
  std::string front;       ///< the URL up to `path`, as the user wrote it, with a slash at its end
};

/// Splits "hf://datasets/owner/name@revision/path". A revision may have slashes as "%2F", and as they are in
/// "refs/convert/parquet" and "refs/pr/1". Throws std::invalid_argument where there is no owner or name.
HubPath parse_hub_path(std::string_view url);

}  // namespace torch_distinput
