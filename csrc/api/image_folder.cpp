// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/image_folder.h"

#include <utility>

#include "sources/images/find_pictures.h"
#include "sources/sources.h"

namespace torch_distinput {

struct ImageFolder::Found {
  FoundPictures pictures;
};

ImageFolder::ImageFolder(const std::string& root) : ImageFolder(Found{find_pictures(root)}) {}

ImageFolder::ImageFolder(Found found)
    : Dataset(sources::image_files(std::move(found.pictures.paths), std::move(found.pictures.numbers))),
      classes_(std::move(found.pictures.classes)) {}

Dataset image_files(std::vector<std::string> paths, std::vector<std::int64_t> numbers) {
  return Dataset(sources::image_files(std::move(paths), std::move(numbers)));
}

}  // namespace torch_distinput
