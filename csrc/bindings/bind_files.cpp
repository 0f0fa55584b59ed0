// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "io/file.h"
#include "io/host_deal.h"
#include "io/host_share.h"
#include "io/json_lines.h"
#include "io/manifest.h"
#include "io/stored_file.h"
#include "torch_distinput/files.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using Names = std::vector<std::string>;
using Compression = std::optional<std::string>;
using Index = std::optional<bool>;
using Most = std::optional<std::int64_t>;

FileNames file_names(const py::object& files) {
  if (py::isinstance<Dataset>(files)) return files.cast<const Dataset&>();
  return files.cast<Names>();
}

Dataset text_lines(const py::object& files, Compression compression_type, Index index,
                   Most max_record_bytes) {
  FileNames names = file_names(files);
  return without_gil([&] {
    return TextLineDataset(std::move(names), {std::move(compression_type), index, max_record_bytes});
  });
}

Dataset tf_records(const py::object& files, Compression compression_type, Index index,
                   Most max_record_bytes) {
  FileNames names = file_names(files);
  return without_gil([&] {
    return TFRecordDataset(std::move(names), {std::move(compression_type), index, max_record_bytes});
  });
}

Dataset fixed_records(const py::object& files, std::int64_t record_bytes, std::int64_t header_bytes,
                      std::int64_t footer_bytes, Compression compression_type, Index index,
                      Most max_record_bytes) {
  FileNames names = file_names(files);
  return without_gil([&] {
    return FixedLengthRecordDataset(std::move(names), record_bytes, header_bytes, footer_bytes,
                                    {std::move(compression_type), index, max_record_bytes});
  });
}

Dataset list_files(const py::object& patterns, bool shuffle, std::optional<std::int64_t> seed) {
  const auto names = patterns.cast<Names>();
  return without_gil([&] { return Dataset::list_files(names, {.shuffle = shuffle, .seed = seed}); });
}

/// Keeps `function` as long as the process, because the interpreter may end while files are indexed.
void show_progress(const py::object& function) {
  PyObject* const kept = py::object(function).release().ptr();
  on_indexing_progress([kept](const IndexingProgress& progress) {
    if (!interpreter_alive()) return;
    const GilScope gil;
    const py::handle call(kept);
    try {
      run_python(
          [&] { call(progress.files, progress.bytes, progress.total, progress.done, progress.downloaded); });
    } catch (py::error_already_set& error) {
      // A failing report must not stop the indexing.
      error.discard_as_unraisable("torch_distinput");
    }
  });
}

/// `accept` is called with the GIL, and its errors are the caller's.
void read_beside(const py::bytes& path, const std::string& kind, std::uint64_t most,
                 const py::function& accept) {
  const auto name = path.cast<std::string>();
  without_gil([&] {
    load_stored(name, kind, most, [&](std::span<const char> bytes) {
      const GilScope gil;
      return run_python([&] { return accept(py::bytes(bytes.data(), bytes.size())).cast<bool>(); });
    });
  });
}

void write_beside(const py::bytes& path, const std::string& kind, const py::bytes& content) {
  const auto name = path.cast<std::string>();
  const auto bytes = content.cast<std::string>();
  without_gil([&] { store_beside(name, kind, bytes); });
}

/// Both functions are called with the GIL, and their errors are the caller's.
void share_bytes(const py::bytes& key, std::uint64_t most, const py::function& accept,
                 const py::function& make) {
  const auto name = key.cast<std::string>();
  const auto accepts = [&](std::span<const char> bytes) {
    const GilScope gil;
    return run_python([&] { return accept(py::bytes(bytes.data(), bytes.size())).cast<bool>(); });
  };
  const auto makes = [&](const std::function<void(std::uint64_t)>& report) {
    const GilScope gil;
    const auto content = run_python(
        [&] { return static_cast<std::string>(make(py::cpp_function(report)).cast<py::bytes>()); });
    return std::vector<char>(content.begin(), content.end());
  };
  without_gil([&] { share_on_host(name, most, accepts, makes, interrupt_check()); });
}

IndexKind index_kind(const std::string& name) {
  if (name == "lines") return IndexKind::kLines;
  return name == "groups" ? IndexKind::kGroups : IndexKind::kRecords;
}

/// `report` is called with the GIL, and its errors are the caller's.
py::bytes index_bytes(const py::bytes& path, const std::string& kind, const py::function& report) {
  const auto name = path.cast<std::string>();
  return without_gil([&] {
    return make_index(name, index_kind(kind), [&](std::uint64_t bytes) {
      const GilScope gil;
      run_python([&] { report(bytes); });
    });
  });
}

std::optional<std::int64_t> indexed_records(const py::bytes& path, const std::string& kind,
                                            const py::bytes& index) {
  const auto name = path.cast<std::string>();
  const auto bytes = index.cast<std::string>();
  return without_gil([&] { return count_indexed(name, index_kind(kind), bytes); });
}

/// The first line of `text` that is not one JSON object: its begin, its end and which rule it breaks; None
/// where there is none.
py::object json_fault(const py::bytes& text) {
  const auto view = static_cast<std::string_view>(text);
  std::optional<JsonFault> fault;
  without_gil([&] { fault = find_json_fault(view); });
  if (!fault) return py::none();
  constexpr std::array<const char*, 4> kRules{"no object", "too deep", "not UTF-8", "unclosed"};
  return py::make_tuple(fault->begin, fault->end, kRules.at(static_cast<std::size_t>(fault->kind)));
}

}  // namespace

void bind_files(py::module_& module) {
  module.def("text_lines", text_lines, py::arg("files"), py::arg("compression_type"), py::arg("index"),
             py::arg("max_record_bytes"),
             "The lines of text files; `files` is a list of names or a dataset that yields names.");
  module.def("tf_records", tf_records, py::arg("files"), py::arg("compression_type"), py::arg("index"),
             py::arg("max_record_bytes"), "The records of TFRecord files.");
  module.def("fixed_records", fixed_records, py::arg("files"), py::arg("record_bytes"),
             py::arg("header_bytes"), py::arg("footer_bytes"), py::arg("compression_type"), py::arg("index"),
             py::arg("max_record_bytes"), "The records of files whose records are all of one length.");
  module.def("list_files", list_files, py::arg("patterns"), py::arg("shuffle"), py::arg("seed"),
             "The names of the files that match one of the patterns.");
  module.def("show_progress", show_progress, py::arg("function"),
             "Calls `function(files, bytes, total, done, downloaded)` while files are indexed.");
  module.attr("MAX_JSON_DEPTH") = kMaxJsonDepth;
  module.def("json_fault", json_fault, py::arg("text"),
             "The first line of JSON lines that is not one object, by its brackets and quotes alone: begin, "
             "end, and "
             "\"no object\", \"too deep\", \"not UTF-8\" or \"unclosed\"; None where each is one.");
  module.def(
      "load_stored", read_beside, py::arg("path"), py::arg("kind"), py::arg("most"), py::arg("accept"),
      "Calls `accept` with what is stored of this `kind` for the file `path`, in each place that may be "
      "believed, up to `most` bytes each, until it returns true.");
  module.def(
      "manifest_url", [](const std::string& url, const std::string& kind) { return manifest_url(url, kind); },
      py::arg("url"), py::arg("kind"),
      "Where what is stored of all objects in the folder of the one at `url` lies together.");
  module.attr("MOST_MANIFEST_BYTES") = kMostManifest;
  module.def(
      "encode_manifest",
      [](const std::map<std::string, py::bytes>& entries) {
        std::vector<std::pair<std::string, std::string>> contents;
        for (const auto& [name, content] : entries) contents.emplace_back(name, std::string(content));
        return py::bytes(encode_manifest(contents));
      },
      py::arg("entries"), "What is stored of objects, by the last part of their URLs, as one object.");
  module.def(
      "decode_manifest",
      [](const py::bytes& bytes) {
        const auto view = static_cast<std::string_view>(bytes);
        std::optional<std::map<std::string, py::bytes>> entries;
        if (const auto found = decode_manifest(view)) {
          entries.emplace();
          for (const auto& [name, content] : *found)
            entries->emplace(name, py::bytes(content.data(), content.size()));
        }
        return entries;
      },
      py::arg("bytes"), "The entries of a manifest; None where bytes are none.");
  module.def("forget_manifests", forget_manifests, "Frees what was read of manifests and not taken.");
  module.def("make_index", index_bytes, py::arg("path"), py::arg("kind"), py::arg("report"),
             "The index of the \"lines\", \"records\" or \"groups\" of a file, as it is stored. Calls "
             "`report` with the bytes read so far.");
  module.def("count_indexed", indexed_records, py::arg("path"), py::arg("kind"), py::arg("index"),
             "The records of a stored index; None unless it is that of the file `path` as it is now.");
  module.def(
      "stored_url", [](const std::string& url, const std::string& kind) { return stored_url(url, kind); },
      py::arg("url"), py::arg("kind"),
      "Where what is stored of this `kind` for the object at `url` lies beside it, for all; None where `url` "
      "has "
      "a query.");
  module.def("may_store", may_store, "Whether the environment lets `store_beside` write.");
  module.def(
      "deal_files",
      [](std::size_t count) {
        HostDeal deal = deal_files(count, host_place());
        return std::pair(std::move(deal.order), deal.own);
      },
      py::arg("count"),
      "The numbers of `count` files in the order in which this process takes them, and how many of them are "
      "its host's "
      "share, which come first.");
  module.def(
      "version_on_host", [](const py::bytes& path) { return version_on_host(path.cast<std::string>()); },
      py::arg("path"), "Names the file `path` and its version, for processes on this host.");
  module.def("share_on_host", share_bytes, py::arg("key"), py::arg("most"), py::arg("accept"),
             py::arg("make"),
             "Calls `accept` with the bytes that another process on the host has made under `key`, up to "
             "`most`; unless "
             "it returns true, calls `make`, in one process at a time, and gives what it returns to the "
             "others. `make` "
             "is called with a function that it calls with a growing number, to show that it goes on.");
  module.def(
      "store_beside", write_beside, py::arg("path"), py::arg("kind"), py::arg("content"),
      "Stores bytes beside the file `path`, or in the user's cache folder; nothing where neither can be "
      "written to.");
}

}  // namespace torch_distinput
