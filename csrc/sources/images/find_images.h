// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_distinput {

/// The images of a folder, or of a URL with names below it, with a folder for each class.
struct FoundImages {
  std::vector<std::string> classes;   ///< names, sorted
  std::vector<std::string> paths;     ///< by class, then sorted
  std::vector<std::int64_t> numbers;  ///< of the class of each path
};

/// Looks for images, in the order of torchvision's ImageFolder. Throws as `ImageFolder`. Lists the
/// objects below a URL once.
FoundImages find_images(const std::string& root);

}  // namespace torch_distinput
