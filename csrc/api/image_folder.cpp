// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/image_folder.h"

#include <utility>

#include "sources/images/find_images.h"
#include "sources/sources.h"

namespace torch_distinput {

struct ImageFolder::Found {
  FoundImages images;
};

ImageFolder::ImageFolder(const std::string& root) : ImageFolder(Found{find_images(root)}) {}

ImageFolder::ImageFolder(Found found)
    : Dataset(sources::image_files(std::move(found.images.paths), std::move(found.images.numbers))),
      classes_(std::move(found.images.classes)) {}

Dataset image_files(std::vector<std::string> paths, std::vector<std::int64_t> numbers) {
  return Dataset(sources::image_files(std::move(paths), std::move(numbers)));
}

}  // namespace torch_distinput
