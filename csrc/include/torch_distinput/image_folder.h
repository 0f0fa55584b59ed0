// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {

/// Images in a folder for each class, as torchvision's ImageFolder: tuples of the encoded bytes of a file
/// and the number of its class (int64 scalar). Classes are the folders in `root`, sorted; files are sorted by
/// path within a class, and found in its subfolders too. Random access and exact length. Files are read when
/// rows are: a missing one is a NotFoundError, and one that cannot be read a SystemError.
class TDI_API ImageFolder : public Dataset {
 public:
  /// Throws NotFoundError if there is no such folder, no class in it, or a class without images (files
  /// whose names end as images' do), SystemError for a folder that cannot be read, and InvalidArgumentError
  /// for a link to a folder that holds it. Other links are followed, also out of `root`. `root` may be a URL:
  /// its folders are those in the names of objects, which are listed once; RemoteError where that fails.
  explicit ImageFolder(const std::string& root);

  /// The names of the classes; the index is the class number. The reference lives as long as this object; of
  /// a temporary, a copy.
  const std::vector<std::string>& classes() const& noexcept { return classes_; }
  std::vector<std::string> classes() const&& { return classes_; }

 private:
  struct Found;
  explicit ImageFolder(Found found);

  std::vector<std::string> classes_;
};

/// Files with a number each, as ImageFolder reads them. Throws c10::ValueError for lists of different length.
TDI_API Dataset image_files(std::vector<std::string> paths, std::vector<std::int64_t> numbers);

}  // namespace torch_distinput
