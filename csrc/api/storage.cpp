// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/storage.h"

#include <stdexcept>
#include <utility>

#include "io/file.h"
#include "io/remote_files.h"
#include "remote/url.h"
#include "sources/records/file_errors.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

namespace {

template <class Call>
void with_argument_errors(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& problem) {
    throw InvalidArgumentError(std::string(problem.what()) + ".");
  }
}

}  // namespace

void set_storage_options(const std::string& url, StorageOptions options, CredentialCallback credentials) {
  with_argument_errors(
      [&] { RemoteFiles::of_process().configure(url, std::move(options), std::move(credentials)); });
}

void set_object_cache(const std::string& url, const ObjectCacheOptions& options) {
  with_argument_errors([&] { RemoteFiles::of_process().set_cache(url, options.folder, options.max_bytes); });
}

void set_default_credentials(CredentialCallback credentials) {
  RemoteFiles::of_process().set_default_credentials(std::move(credentials));
}

void set_file_system(const std::string& url, std::shared_ptr<FileSystem> files) {
  with_argument_errors([&] { RemoteFiles::of_process().set_file_system(url, std::move(files)); });
}

class OpenFile {
 public:
  OpenFile(const std::string& name, std::string op)
      : op_(std::move(op)), file_(with_file_errors(op_, [&] {
          stamp_of(name);  // an object may have been replaced since it was seen
          return std::make_shared<const File>(name);
        })) {}

  template <class Call>
  auto ask(Call call) const {
    return with_file_errors(op_, [&] { return call(*file_); });
  }

 private:
  std::string op_;
  FilePtr file_;
};

InputFile::InputFile(const std::string& name, std::string op)
    : file_(std::make_unique<OpenFile>(name, std::move(op))) {}
InputFile::~InputFile() = default;
InputFile::InputFile(InputFile&&) noexcept = default;
InputFile& InputFile::operator=(InputFile&&) noexcept = default;

std::uint64_t InputFile::size() const {
  return file_->ask([](const File& file) { return file.stamp().size; });
}

std::string InputFile::version() const {
  return file_->ask([](const File& file) { return file.version(); });
}

std::size_t InputFile::read(char* to, std::size_t size, std::uint64_t offset) const {
  return file_->ask([&](const File& file) { return file.read({to, size}, offset); });
}

void InputFile::will_read(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) const {
  std::vector<ByteRange> wanted;
  for (const auto& [offset, size] : ranges) wanted.push_back({offset, size});
  file_->ask([&](const File& file) { file.will_read(wanted); });
}

bool names_object(const std::string& name) { return is_url(name); }

std::vector<std::pair<std::string, std::uint64_t>> list_objects(const std::string& prefix) {
  std::vector<std::pair<std::string, std::uint64_t>> found;
  with_file_errors("list_objects", [&] {
    for (ListedObject& object : RemoteFiles::of_process().list(prefix))
      found.emplace_back(std::move(object.url), object.size);
  });
  return found;
}

void write_object(const std::string& url, std::string contents) {
  with_file_errors("write_object", [&] { RemoteFiles::of_process().write(url, std::move(contents)); });
}

}  // namespace torch_distinput
