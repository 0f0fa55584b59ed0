// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/arrays/array_file.h"

#include "io/file_error.h"
#include "kernels/npy.h"

namespace torch_distinput {

std::int64_t StoredArray::row_bytes() const {
  return bytes_of_array({shape.begin() + 1, shape.end()}, dtype);
}

Stretch::Stretch(const File& file, std::uint64_t begin, std::uint64_t size)
    : file_(file), begin_(begin), size_(size) {}
Stretch::Stretch(const File& file, std::span<const char> unpacked)
    : file_(file), begin_(0), size_(unpacked.size()), unpacked_(unpacked.data()) {}

std::string Stretch::read(std::uint64_t offset, std::uint64_t count) const {
  if (offset > size_ || count > size_ - offset) {
    damaged(offset, "it ends after " + std::to_string(size_) + " bytes, but " + std::to_string(count) +
                        " more are needed here");
  }
  if (unpacked_ != nullptr) return {unpacked_ + offset, static_cast<std::size_t>(count)};
  std::string bytes(static_cast<std::size_t>(count), '\0');
  read_whole(file_, bytes, place(offset));
  return bytes;
}

void Stretch::damaged(std::uint64_t offset, const std::string& problem) const {
  throw FileError(file_.path(), place(offset), problem);
}

}  // namespace torch_distinput
