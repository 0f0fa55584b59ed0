// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/python_file_system.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include <pybind11/stl.h>

#include "bindings/interpreter/calling_python.h"
#include "bindings/interpreter/py_ref.h"

namespace torch_distinput {
namespace {

class PythonFileSystem final : public FileSystem {
 public:
  explicit PythonFileSystem(PyRef files) : files_(std::move(files)) {}

  std::optional<Object> look(const std::string& url) override {
    return ask([&](const py::handle& files) {
      const auto [size, version] = files.attr("look")(url).cast<std::tuple<std::uint64_t, std::string>>();
      return Object{url, size, version};
    });
  }
  std::optional<std::size_t> read(const std::string& url, char* to, std::size_t size,
                                  std::uint64_t offset) override {
    return ask([&](const py::handle& files) {
      const auto bytes = files.attr("read")(url, offset, size).cast<py::bytes>();
      const std::string_view content = bytes;
      content.copy(to, size);
      return content.size();
    });
  }
  std::vector<Object> list(const std::string& prefix) override {
    using Entry = std::tuple<std::string, std::uint64_t, std::string>;
    return calling_python([&] {
      std::vector<Object> result;
      for (auto& [url, size, version] :
           py::handle(files_.get()).attr("list")(prefix).cast<std::vector<Entry>>())
        result.push_back({std::move(url), size, std::move(version)});
      return result;
    });
  }

 private:
  /// What `call` returns; nullopt where it raises FileNotFoundError.
  template <class Call>
  auto ask(Call call) -> std::optional<decltype(call(py::handle()))> {
    const GilScope gil;
    try {
      return calling_python([&] { return call(py::handle(files_.get())); });
    } catch (const PythonError& error) {
      if (!error.is(PyExc_FileNotFoundError)) throw;
      return std::nullopt;
    }
  }

  PyRef files_;
};

}  // namespace

std::shared_ptr<FileSystem> python_file_system(const py::object& files) {
  return std::make_shared<PythonFileSystem>(share(files));
}

}  // namespace torch_distinput
