// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/interpreter/calling_python.h"
#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "bindings/user_object.h"
#include "torch_distinput/columns.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// Takes what the capsule that `object.method()` returns holds: the capsule is left released.
template <class Struct>
void take_capsule(const py::object& object, const char* method, const char* name, Struct* out) {
  const py::object capsule = object.attr(method)();
  auto* const held = static_cast<Struct*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (held == nullptr) throw py::error_already_set();
  *out = *held;
  held->release = nullptr;
}

void take_arrow_stream(const py::object& object, ArrowArrayStream* out) {
  take_capsule(object, "__arrow_c_stream__", "arrow_array_stream", out);
}

void take_arrow_schema(const py::object& object, ArrowSchema* out) {
  take_capsule(object, "__arrow_c_schema__", "arrow_schema", out);
}

NullRule null_rule(const py::handle& rule) {
  if (py::isinstance<py::str>(rule)) {
    auto text = rule.cast<std::string>();
    if (text == "error") return {};
    if (text == "mask") return {NullRule::Kind::kMask};
    return {NullRule::Kind::kFill, std::move(text)};
  }
  if (py::isinstance<py::bool_>(rule)) return {NullRule::Kind::kFill, c10::Scalar(rule.cast<bool>())};
  if (py::isinstance<py::int_>(rule)) return {NullRule::Kind::kFill, c10::Scalar(rule.cast<std::int64_t>())};
  TORCH_CHECK_TYPE(py::isinstance<py::float_>(rule),
                   "nulls: a rule must be \"error\", \"mask\", or a number or str to fill in, but is a ",
                   Py_TYPE(rule.ptr())->tp_name, ".");
  return {NullRule::Kind::kFill, c10::Scalar(rule.cast<double>())};
}

ColumnOptions column_options(const py::object& nulls, const py::dict& stack, const py::dict& dtypes) {
  ColumnOptions options;
  if (py::isinstance<py::dict>(nulls)) {
    for (const auto& [column, rule] : nulls.cast<py::dict>())
      options.nulls_of.emplace(column.cast<std::string>(), null_rule(rule));
  } else {
    options.nulls = null_rule(nulls);
  }
  for (const auto& [name, columns] : stack)
    options.stack.emplace_back(name.cast<std::string>(), columns.cast<std::vector<std::string>>());
  for (const auto& [column, dtype] : dtypes)
    options.dtypes.emplace(column.cast<std::string>(), dtype.cast<c10::ScalarType>());
  return options;
}

Dataset arrow_table(const py::object& table, const ColumnOptions& options) {
  ArrowArrayStream stream{};
  take_arrow_stream(table, &stream);
  return without_gil([&] { return from_arrow(&stream, options); });
}

/// Calls a function that returns an object with a stream, anew for each iterator.
class PythonStreams final : public GeneratorSource, public PythonCode {
 public:
  PythonStreams(py::object open, std::string name, ColumnOptions options)
      : open_(std::move(open)), name_(std::move(name)), options_(std::move(options)) {}

  const UserObject& object() const override { return open_; }
  std::unique_ptr<Generator> open() const override {
    ArrowArrayStream stream{};
    calling_python([&] { take_arrow_stream(open_.get()(), &stream); });
    return arrow_rows(&stream, options_);
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::string name() const override { return name_; }

 private:
  UserObject open_;
  std::string name_;
  ColumnOptions options_;
};

Dataset arrow_streams(py::object open, const py::object& schema, std::string name,
                      const ColumnOptions& options) {
  ArrowSchema type{};
  take_arrow_schema(schema, &type);
  ElementSpec spec;
  try {
    spec = arrow_spec(type, options);
  } catch (...) {
    type.release(&type);
    throw;
  }
  type.release(&type);
  auto source = std::make_shared<PythonStreams>(std::move(open), std::move(name), options);
  return without_gil([&] { return Dataset::from_generator(std::move(source), std::move(spec)); });
}

/// A Python object with the methods of BlockCursor.
class PythonBlockCursor final : public BlockCursor {
 public:
  PythonBlockCursor(py::object cursor, const UserObject& reader) : cursor_(std::move(cursor), reader) {}

  std::optional<std::int64_t> next() override {
    return calling_python([&] { return cursor_.get().attr("next")().cast<std::optional<std::int64_t>>(); });
  }
  void read(ArrowArrayStream* out) override {
    calling_python([&] { take_arrow_stream(cursor_.get().attr("read")(), out); });
  }
  void read_rows(std::int64_t begin, std::int64_t end, ArrowArrayStream* out) override {
    calling_python([&] { take_arrow_stream(cursor_.get().attr("read_rows")(begin, end), out); });
  }

 private:
  UserObject cursor_;
};

/// A Python object with the methods of BlockReader.
class PythonBlocks final : public BlockReader, public PythonCode {
 public:
  PythonBlocks(py::object reader, std::string name, std::string arguments)
      : reader_(std::move(reader)),
        reads_rows_(py::hasattr(reader_.get(), "read_rows")),
        opens_(py::hasattr(reader_.get(), "open")),
        name_(std::move(name)),
        arguments_(std::move(arguments)) {}

  const UserObject& object() const override { return reader_; }
  std::vector<std::vector<std::int64_t>> count_rows(const std::vector<std::string>& files) const override {
    std::vector<std::vector<std::int64_t>> counts;
    calling_python([&] {
      counts =
          reader_.get().attr("count_rows")(names_of(files)).cast<std::vector<std::vector<std::int64_t>>>();
    });
    TORCH_CHECK_VALUE(counts.size() == files.size(), name_, ": ", counts.size(), " files were counted of ",
                      files.size(), ".");
    return counts;
  }
  bool lacks_index(const std::vector<std::string>& files) const override {
    return calling_python([&] { return reader_.get().attr("lacks_index")(names_of(files)).cast<bool>(); });
  }
  void schema(const std::string& file, ArrowSchema* out) const override {
    calling_python([&] { take_arrow_schema(reader_.get().attr("schema")(py::bytes(file)), out); });
  }
  void read(const std::string& file, std::int64_t block, ArrowArrayStream* out) const override {
    calling_python([&] { take_arrow_stream(reader_.get().attr("read")(py::bytes(file), block), out); });
  }
  std::vector<std::int64_t> will_read(const std::string& file, const std::vector<std::int64_t>& blocks,
                                      std::int64_t bytes) const override {
    return calling_python([&] {
      const py::object sizes = reader_.get().attr("will_read")(py::bytes(file), blocks, bytes);
      return sizes.cast<std::vector<std::int64_t>>();
    });
  }
  bool reads_rows() const override { return reads_rows_; }
  void read_rows(const std::string& file, std::int64_t block, std::int64_t begin, std::int64_t end,
                 ArrowArrayStream* out) const override {
    calling_python(
        [&] { take_arrow_stream(reader_.get().attr("read_rows")(py::bytes(file), block, begin, end), out); });
  }
  std::unique_ptr<BlockCursor> open(const std::string& file) const override {
    if (!opens_) return nullptr;
    return calling_python([&] {
      return std::make_unique<PythonBlockCursor>(reader_.get().attr("open")(py::bytes(file)), reader_);
    });
  }
  std::string arguments() const override { return arguments_; }
  std::string name() const override { return name_; }

 private:
  static py::list names_of(const std::vector<std::string>& files) {
    py::list names;
    for (const std::string& file : files) names.append(py::bytes(file));
    return names;
  }

  UserObject reader_;
  bool reads_rows_;
  bool opens_;
  std::string name_;
  std::string arguments_;
};

Dataset blocks(const py::object& files, py::object reader, std::string name, std::string arguments,
               const ColumnOptions& options, bool index) {
  FileNames names = py::isinstance<Dataset>(files) ? FileNames(files.cast<const Dataset&>())
                                                   : FileNames(files.cast<std::vector<std::string>>());
  auto native = std::make_shared<PythonBlocks>(std::move(reader), std::move(name), std::move(arguments));
  return without_gil([&] { return from_blocks(names, std::move(native), options, index); });
}

}  // namespace

void bind_columns(py::module_& module) {
  py::class_<ColumnOptions>(module, "ColumnOptions", "How the columns of a table become leaves.")
      .def(py::init(&column_options), py::arg("nulls"), py::arg("stack"), py::arg("dtypes"),
           "`nulls`: a rule, or a dict of rules by column. `stack`: columns by the name of the leaf. "
           "`dtypes`: "
           "of columns that become another one.");
  module.def("arrow_table", arrow_table, py::arg("table"), py::arg("options"),
             "The rows of an object with `__arrow_c_stream__`, which is read now. Random access.");
  module.def(
      "arrow_streams", arrow_streams, py::arg("open"), py::arg("schema"), py::arg("name"), py::arg("options"),
      "The rows of the object with `__arrow_c_stream__` that `open()` returns anew for each iterator.");
  module.def(
      "blocks", blocks, py::arg("files"), py::arg("reader"), py::arg("name"), py::arg("arguments"),
      py::arg("options"), py::arg("index"),
      "The rows of tables in files. `reader` has `count_rows(files)`, the rows of each block of each "
      "file, `schema(file)`, `read(file, block)` and, for URLs, `will_read(file, blocks, bytes)`; one "
      "whose rows can be read apart from one another also "
      "`read_rows(file, block, begin, end)`, and one that finds blocks as it reads them `open(file)`: an "
      "object with `next()`, the rows of the next block or None, `read()` and `read_rows(begin, end)`. "
      "Files are names as bytes.");
}

}  // namespace torch_distinput
