// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace torch_distinput {

/// An unconverted argument of type `T` (bool, std::int64_t, double, std::string, c10::ScalarType,
/// AutoShardPolicy, or a vector of the first three). pybind11 shows it as a `T` but accepts any object,
/// because its own message names neither the parameter nor the value. Needs the GIL.
template <class T>
struct Required {
  pybind11::object given;

  /// The converted value. Throws c10::TypeError naming `op` and `parameter` for another type, and
  /// c10::ValueError for an int of more than 64 bits and for text that UTF-8 cannot hold.
  T get(const char* op, const char* parameter) const;
};

/// As `Required`, where None is allowed too; shown as `T | None`.
template <class T>
struct Argument {
  pybind11::object given;

  /// Nullopt for None.
  std::optional<T> get(const char* op, const char* parameter) const {
    if (given.is_none()) return std::nullopt;
    return Required<T>{given}.get(op, parameter);
  }
};

}  // namespace torch_distinput

namespace pybind11::detail {

template <class T>
struct type_caster<torch_distinput::Argument<T>> {
  PYBIND11_TYPE_CASTER(torch_distinput::Argument<T>, make_caster<std::optional<T>>::name);

  bool load(handle source, bool /*convert*/) {
    value.given = reinterpret_borrow<object>(source);
    return true;
  }
};

template <class T>
struct type_caster<torch_distinput::Required<T>> {
  PYBIND11_TYPE_CASTER(torch_distinput::Required<T>, make_caster<T>::name);

  bool load(handle source, bool /*convert*/) {
    value.given = reinterpret_borrow<object>(source);
    return true;
  }
};

}  // namespace pybind11::detail
