// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <pybind11/pybind11.h>

#include "bindings/workers/tree.h"

namespace torch_distinput {

namespace py = pybind11;

/// Rows of memory, each of `sizes` and `strides` (in bytes) with elements of `element` bytes, that are copied
/// one after the other, each dense and in row-major order.
struct RowsCopy {
  std::uint64_t offset;
  std::uint64_t row_bytes;
  c10::SmallVector<const char*, 1> rows;
  std::vector<std::int64_t> sizes;    // empty: each row is dense
  std::vector<std::int64_t> strides;  // of all rows
  std::int64_t element;
};

/// Objects that were met in a value. Most values have few, which are found sooner one by one than by a hash.
class MetObjects {
 public:
  /// Whether `object` had not been met before.
  bool insert(const void* object) {
    if (few_.size() == kFew) return many_.insert(object).second && !among_few(object);
    if (among_few(object)) return false;
    few_.push_back(object);
    return true;
  }
  void clear() {
    few_.clear();
    if (!many_.empty()) many_.clear();
  }

 private:
  static constexpr std::size_t kFew = 16;

  bool among_few(const void* object) const {
    return std::find(few_.begin(), few_.end(), object) != few_.end();
  }

  c10::SmallVector<const void*, kFew> few_;
  std::unordered_set<const void*> many_;
};

/// A value on its way to another process: its tree, and what must be copied beside it. Holds what it reads
/// until it is destroyed. Everything here needs the GIL.
class Encoder {
 public:
  /// `pickle(value, buffers)` returns `value` as bytes and appends objects with a buffer to the list
  /// `buffers`, which are not in the bytes; with None for a list everything is in the bytes.
  /// `beside`: whether there is memory beside the tree. There is none beside a task, in which a memoryview of
  /// int64 stands for the list of its numbers.
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
  bool add_ints(PyObject* const* items, std::size_t size);
  bool add_int_memory(const Py_buffer& memory);
  bool add_dict(PyObject* value, int depth);
  bool add_named_tuple(PyObject* value, int depth);
  bool add_values(PyObject* sequence, int depth);
  bool add_tensor(const at::Tensor& tensor);
  void add_pickled(py::handle value);
  bool add_class(PyTypeObject* type);
  /// Whether `object` is met for the first time: what is met twice must be one object at its destination too.
  bool is_first(const void* object) { return met_.insert(object); }

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
  std::vector<std::vector<char>> numbers_;
  std::vector<py::buffer_info> buffers_;
  MetObjects met_;
};

/// A batch that `Encoder::add_collated` has made, on its way from a collate_fn to the message.
struct Collated {
  Encoder encoder;
};

}  // namespace torch_distinput
