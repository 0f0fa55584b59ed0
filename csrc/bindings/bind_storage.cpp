// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include "bindings/interpreter/calling_python.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/py_ref.h"
#include "bindings/module.h"
#include "bindings/python_file_system.h"
#include "remote/curl_library.h"
#include "remote/url.h"
#include "torch_distinput/storage.h"

namespace torch_distinput {
namespace {

/// Names of files are bytes where they are not UTF-8.
using Name = py::typing::Union<py::str, py::bytes>;
std::string text_of(const Name& name) { return name.cast<std::string>(); }

using CachedEntry = py::typing::Tuple<py::str, py::str, py::int_, py::int_, py::int_>;

/// A callback that runs `credentials`, which returns a dict of strings.
CredentialCallback to_callback(const py::object& credentials) {
  if (credentials.is_none()) return {};
  return [function = share(credentials)](const std::string& url) {
    return calling_python([&] { return py::handle(function.get())(url).cast<StorageOptions>(); });
  };
}

py::bytes read_at(const InputFile& file, std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t whole = file.size();
  const std::uint64_t left = offset < whole ? whole - offset : 0;
  const auto wanted = static_cast<std::size_t>(size < left ? size : left);
  // The bytes object is filled in place; nobody else has it yet.
  py::bytes bytes =
      py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(wanted)));
  if (!bytes) throw py::error_already_set();
  char* const to = PyBytes_AS_STRING(bytes.ptr());
  const std::size_t read = without_gil([&] { return file.read(to, wanted, offset); });
  if (read == wanted) return bytes;
  return {to, read};
}

}  // namespace

void bind_storage(py::module_& module) {
  module.def(
      "set_storage_options",
      [](const std::string& url, StorageOptions options, const py::object& credentials) {
        CredentialCallback callback = to_callback(credentials);
        without_gil([&] { set_storage_options(url, std::move(options), std::move(callback)); });
      },
      py::arg("url"), py::arg("options"), py::arg("credentials") = py::none(),
      "How all objects with the scheme and bucket (or host) of `url` are asked for from now on.");
  module.def(
      "set_object_cache",
      [](const std::string& url, const std::string& folder, std::uint64_t max_bytes) {
        set_object_cache(url, {.folder = folder, .max_bytes = max_bytes});
      },
      py::arg("url"), py::arg("folder"), py::arg("max_bytes") = 0, WithoutGil(),
      "Bytes of objects with the scheme and bucket of `url` are kept in `folder` from now on.");
  module.def(
      "list_object_cache",
      [](const std::string& folder) {
        const std::vector<CachedObjectInfo> found = without_gil([&] { return list_object_cache(folder); });
        py::typing::List<CachedEntry> entries;
        for (const CachedObjectInfo& object : found)
          entries.append(py::make_tuple(object.url, object.tag, object.size, object.bytes, object.used));
        return entries;
      },
      py::arg("folder"),
      "(URL, version, size, bytes that are kept, seconds since 1970 of its last use) of each object in a "
      "cache.");
  module.def("trim_object_cache", trim_object_cache, py::arg("folder"), py::arg("bytes"), WithoutGil(),
             "Removes objects that were not used for longest until at most `bytes` remain; what remains.");
  module.def(
      "set_default_credentials",
      [](const py::object& credentials) { set_default_credentials(to_callback(credentials)); },
      py::arg("credentials"), "A function that is asked where nothing else has credentials for a URL.");
  module.def(
      "set_file_system",
      [](const std::string& url, const py::object& files) {
        set_file_system(url, python_file_system(files));
      },
      py::arg("url"), py::arg("files"),
      "All objects with the scheme and bucket of `url` are read by an object with look, read and list.");
  module.def(
      "names_object", [](const Name& name) { return names_object(text_of(name)); }, py::arg("name"),
      "Whether a name is a URL that the library reads.");
  module.def(
      "shown_url", [](const Name& url) { return shown_url(text_of(url)); }, py::arg("url"),
      "A URL without its query and user information, which may hold secrets, for messages.");
  module.def("list_objects", list_objects, py::arg("prefix"), WithoutGil(),
             "The URLs of the objects that begin with `prefix`, and their sizes in bytes.");
  module.def(
      "write_object",
      [](const std::string& url, const py::bytes& contents) {
        std::string bytes = contents;
        without_gil([&] { write_object(url, std::move(bytes)); });
      },
      py::arg("url"), py::arg("contents"), "Makes bytes the object at a URL.");
  module.def("curl_version", curl_version, WithoutGil(),
             "libcurl and its TLS library; RuntimeError where there is no libcurl.");
  module.def("look_for_curl_in", look_for_curl_in, py::arg("folder"),
             "The packages in this folder may bring libcurl along.");
  py::class_<InputFile>(module, "InputFile",
                        "A file or an object, open for reading at any place. Thread-safe.")
      .def(py::init([](const Name& given, std::string op) {
             const std::string name = text_of(given);
             return without_gil([&] { return std::make_unique<InputFile>(name, std::move(op)); });
           }),
           py::arg("name"), py::arg("op"))
      .def("size", &InputFile::size, WithoutGil(), "Bytes.")
      .def("version", &InputFile::version, WithoutGil(), "Names the file and its version.")
      .def("read_at", read_at, py::arg("offset"), py::arg("size"), "At most `size` bytes from `offset` on.")
      .def("will_read", &InputFile::will_read, py::arg("ranges"), WithoutGil(),
           "Asks for the bytes of all (offset, size), side by side, without waiting for them.");
}

}  // namespace torch_distinput
