// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include "bindings/workers/tree.h"

namespace torch_distinput {

namespace py = pybind11;

/// Rows of memory, each of `sizes` and `strides` (in bytes) with elements of `element` bytes, that are copied
/// one after the other, each dense and in row-major order.
struct RowsCopy {
  std::uint64_t offset;
  std::uint64_t row_bytes;
  std::vector<const char*> rows;
  std::vector<std::int64_t> sizes;    // empty: each row is dense
  std::vector<std::int64_t> strides;  // of all rows
  std::int64_t element;
};

/// A value on its way to another process: its tree, and what must be copied beside it. Holds what it reads
/// until it is destroyed. Everything here needs the GIL.
class Encoder {
 public:
  /// `pickle(value, buffers)` returns `value` as bytes and appends objects with a buffer to the list
  /// `buffers`, which are not in the bytes; with None for a list everything is in the bytes.
  /// `beside`: whether there is memory beside the tree.
  Encoder(py::object pickle, bool beside) : pickle_(std::move(pickle)), beside_(beside) {}

  Encoder(Encoder&&) noexcept = default;
  Encoder& operator=(Encoder&&) noexcept = default;

  /// Appends `value`. Tensors, numbers, strings and built-in containers of these natively, everything else by
  /// `pickle`, whose exceptions pass.
  void add(py::handle value);
  /// Appends what torch's default_collate makes of `samples`; returns false, with nothing appended, where
  /// native code might make something else.
  bool add_collated(py::handle samples);
  /// Appends what `other` has collected. REQUIRES: no memory beside the tree is in use yet.
  void add(Encoder other);

  const std::string& tree() const noexcept { return tree_.text(); }
  /// Bytes beside the tree.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Writes them.
  void copy_to(char* target) const;

 private:
  friend class Collation;

  struct Mark {
    std::size_t tree, copies;
    std::uint64_t bytes;
  };
  Mark mark() const noexcept { return {tree_.text().size(), copies_.size(), bytes_}; }
  void rewind(const Mark& mark);

  bool add_native(PyObject* value, int depth);
  bool add_list(PyObject* value, int depth);
  bool add_dict(PyObject* value, int depth);
  bool add_named_tuple(PyObject* value, int depth);
  bool add_values(PyObject* sequence, int depth);
  bool add_tensor(const at::Tensor& tensor);
  void add_pickled(py::handle value);
  bool add_class(PyTypeObject* type);
  /// Whether `object` is met for the first time: what is met twice must be one object at its destination too.
  bool is_first(const void* object) { return met_.insert(object).second; }

  void tensor_head(at::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                   std::uint64_t bytes, std::uint64_t offset);
  std::uint64_t reserve(std::uint64_t bytes);
  void copy_rows(RowsCopy copy) { copies_.push_back(std::move(copy)); }
  void keep(py::object owner) { owners_.push_back(std::move(owner)); }

  py::object pickle_;
  bool beside_;
  TreeWriter tree_;
  std::uint64_t bytes_ = 0;
  std::vector<RowsCopy> copies_;
  std::vector<py::object> owners_;
  std::deque<std::vector<char>> numbers_;
  std::vector<py::buffer_info> buffers_;
  std::unordered_set<const void*> met_;
};

/// A batch that `Encoder::add_collated` has made, on its way from a collate_fn to the message.
struct Collated {
  Encoder encoder;
};

}  // namespace torch_distinput
