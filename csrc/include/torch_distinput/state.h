// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "torch_distinput/api.h"

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace torch_distinput {

/// A saved position: plain, named, readable values of the kinds that JSON has, no tensors. In Python a dict
/// of dicts, lists, ints, floats, strings, bools and None. A value; any thread may read it. The positions
/// that iterators save name their kind and version, which `load` of an iterator checks.
class TDI_API State {
 public:
  using List = std::vector<State>;
  using Map = std::map<std::string, State, std::less<>>;

  /// Null (Python's None).
  State() = default;
  State(bool value) : value_(value) {}                      // NOLINT
  State(std::int64_t value) : value_(value) {}              // NOLINT
  State(int value) : value_(std::int64_t{value}) {}         // NOLINT
  State(double value) : value_(value) {}                    // NOLINT
  State(std::string value) : value_(std::move(value)) {}    // NOLINT
  State(const char* value) : value_(std::string(value)) {}  // NOLINT
  State(List value) : value_(std::move(value)) {}           // NOLINT
  State(Map value) : value_(std::move(value)) {}            // NOLINT
  /// An unsigned 64-bit number (a seed or key), kept as the signed one with the same bits.
  static State key(std::uint64_t value) { return State(static_cast<std::int64_t>(value)); }

  /// Whether this is the null value.
  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(value_); }
  /// Whether this is a map with an entry `name`.
  bool has(std::string_view name) const;
  // References live as long as the state; what a temporary returns is a value of its own.

  /// Entry `name` of a map. Throws c10::ValueError if it is absent.
  const State& at(std::string_view name) const&;
  State at(std::string_view name) const&& { return at(name); }
  /// Sets entry `name`; a null state becomes a map. Throws c10::ValueError for any other kind.
  State& set(std::string_view name, State value) &;
  State set(std::string_view name, State value) && { return std::move(set(name, std::move(value))); }

  // The value as one kind; each throws c10::ValueError for a value of another kind.

  bool as_bool() const;
  std::int64_t as_int() const;
  std::uint64_t as_key() const { return static_cast<std::uint64_t>(as_int()); }
  double as_double() const;
  const std::string& as_string() const&;
  const List& as_list() const&;
  const Map& as_map() const&;
  std::string as_string() const&& { return as_string(); }
  List as_list() const&& { return as_list(); }
  Map as_map() const&& { return as_map(); }

  bool operator==(const State&) const = default;
  /// As JSON: the text that Python's `json.dumps(state_dict, sort_keys=True)` returns.
  std::string str() const;
  /// The state that `text`, which is JSON in any layout, describes: `State::parse(state.str()) == state`.
  /// Throws c10::ValueError naming the byte where `text` is not JSON, a number is beyond 64 bits, or a key
  /// occurs twice.
  static State parse(std::string_view text);

  /// Writes `str()` to the file `path`, which Python's `json.load` reads. The file is replaced at once, so
  /// that a reader, or a process that is killed meanwhile, finds the old state or the new one. Throws
  /// SystemError.
  void save(const std::string& path) const;
  /// The state in the file `path`, written by `save` or by Python's `json.dump`. Throws NotFoundError,
  /// SystemError, and c10::ValueError as `parse` does.
  static State load(const std::string& path);

  /// Writes this state into `archive` as the position `name`, beside models, optimizers and positions of
  /// other names: `archive` gets a nested archive under the key `tdi_state_<name>`, or `tdi_state` where
  /// `name` is empty. A name has letters, digits and `_`. Throws c10::ValueError for another one and where
  /// the key exists already.
  void save(torch::serialize::OutputArchive& archive, const std::string& name) const;
  /// The position `name` that `save` wrote into `archive`. Throws c10::ValueError, with the names that
  /// `archive` has, where there is none, and as `parse` does.
  static State load(torch::serialize::InputArchive& archive, const std::string& name);

  /// The value of any kind; `std::monostate` is null.
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Map>;
  const Value& value() const& noexcept { return value_; }
  Value value() const&& { return value_; }

 private:
  Value value_;
};

/// For `torch::save(state, path)` and archives that hold one position: as `save` and `load` with the name "".
/// `>>` also reads the archives of earlier versions, in which a text under the key "state" is the position.
TDI_API torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                                    const State& state);
TDI_API torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive, State& state);

}  // namespace torch_distinput
