// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/convert.h"

#include <utility>

#include <c10/util/Exception.h>
#include <pybind11/stl.h>

#include "bindings/interpreter/python_error.h"
#include "bindings/interpreter/state_guard.h"
#include "bindings/leaves/leaf.h"

namespace torch_distinput {
namespace {

/// The path from the whole state to an entry, for messages.
struct StatePath {
  const StatePath* outer = nullptr;
  std::string entry = {};  ///< `['input']` or `[3]`
  int depth = 0;

  StatePath inside(std::string next) const { return {this, std::move(next), depth + 1}; }
  std::string text() const { return outer == nullptr ? "state" : outer->text() + entry; }
  std::string beginning() const { return text().substr(0, 60) + "..."; }
};

/// Reads an object that a user passes as a state: it may hold itself, or one entry many times.
class StateFromPython {
 public:
  State read(py::handle value, const StatePath& path) {
    TORCH_CHECK_VALUE(path.depth <= kMaxDepth, path.beginning(), ": must be nested at most ", kMaxDepth,
                      " deep, but is deeper; a dict or list in it may hold itself.");
    TORCH_CHECK_VALUE(++values_ <= kMaxValues, path.beginning(), ": a state must hold at most ", kMaxValues,
                      " values, but has more; a dict or list may stand in it many times.");
    if (value.is_none()) return {};
    if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
    if (py::isinstance<py::int_>(value)) return integer(value, path);
    if (py::isinstance<py::float_>(value)) return value.cast<double>();
    if (py::isinstance<py::str>(value)) return text(value, path);
    if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) return list(value, path);
    TORCH_CHECK_TYPE(py::isinstance<py::dict>(value), path.text(), ": is a ", Py_TYPE(value.ptr())->tp_name,
                     "; a state holds dicts, lists, ints, floats, strings, bools and None.");
    return map(value, path);
  }

 private:
  /// Far deeper than states of real pipelines with any number of restarts, and within a small part of a
  /// thread's stack.
  static constexpr int kMaxDepth = 1000;
  static constexpr std::int64_t kMaxValues = std::int64_t{1} << 22;

  static State integer(py::handle value, const StatePath& path) {
    int overflow = 0;
    const std::int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    TORCH_CHECK_VALUE(overflow == 0, path.text(), ": is an int beyond 64 bits.");
    return number;
  }

  static std::string text(py::handle value, const StatePath& path) {
    Py_ssize_t size = 0;
    const char* const data = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (data == nullptr) PyErr_Clear();
    TORCH_CHECK_VALUE(data != nullptr, path.text(),
                      ": is a str with a lone surrogate, which UTF-8 cannot hold.");
    return {data, static_cast<std::size_t>(size)};
  }

  State list(py::handle value, const StatePath& path) {
    State::List entries;
    for (const auto item : value)
      entries.push_back(read(item, path.inside(c10::str("[", entries.size(), "]"))));
    return entries;
  }

  State map(py::handle value, const StatePath& path) {
    State::Map entries;
    for (const auto& [key, entry] : py::reinterpret_borrow<py::dict>(value)) {
      TORCH_CHECK_TYPE(py::isinstance<py::str>(key), path.text(),
                       ": keys must be str, but found a key of type ", Py_TYPE(key.ptr())->tp_name, ".");
      const std::string name = text(key, path);
      entries.emplace(name, read(entry, path.inside("['" + name + "']")));
    }
    return entries;
  }

  std::int64_t values_ = 0;
};

struct StateWriter {
  py::object operator()(std::monostate) const { return py::none(); }
  py::object operator()(const State::List& list) const {
    py::list result;
    for (const auto& item : list) result.append(state_to_python(item));
    return result;
  }
  py::object operator()(const State::Map& map) const {
    py::dict result;
    for (const auto& [name, value] : map) result[py::str(name)] = state_to_python(value);
    return result;
  }
  template <class Plain>
  py::object operator()(const Plain& value) const {
    return py::cast(value);
  }
};

/// Runs `convert` and puts `where()` and the leaf's name before the message of what it throws.
template <class Where, class Convert>
void with_leaf_name(const Structure& structure, std::size_t leaf, const Where& where, Convert convert) {
  const auto named = [&](const c10::Error& error) {
    const auto path = structure.leaf_path(static_cast<std::int64_t>(leaf));
    return where() + (path.empty() ? "the value" : "leaf " + path) + " " + error.what_without_backtrace();
  };
  try {
    convert();
  } catch (const c10::TypeError& error) {
    C10_THROW_ERROR(TypeError, named(error));
  } catch (const c10::ValueError& error) {
    C10_THROW_ERROR(ValueError, named(error));
  }
}

py::object named_leaf_to_python(Element& element, std::size_t leaf) {
  py::object value;
  const auto nowhere = [] { return std::string(); };
  with_leaf_name(*element.structure(), leaf, nowhere,
                 [&] { value = leaf_to_python(element.leaves()[leaf]); });
  return value;
}

}  // namespace

py::object element_to_python(Element&& element) {
  c10::SmallVector<py::object, 8> leaves;
  for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf)
    leaves.push_back(named_leaf_to_python(element, leaf));
  return TreeSpec::of(element.structure()).assemble(leaves);
}

py::object elements_to_python(std::span<Element> elements, const py::object& wrap) {
  const Element& first = elements.front();
  const auto wrapped = [&](const auto& value_of) {
    const py::tuple values(elements.size());
    for (std::size_t i = 0; i < elements.size(); ++i)
      PyTuple_SET_ITEM(values.ptr(), static_cast<Py_ssize_t>(i), value_of(elements[i]).release().ptr());
    py::object value = py::reinterpret_steal<py::object>(PyObject_CallOneArg(wrap.ptr(), values.ptr()));
    if (!value) throw_python();
    return value;
  };
  c10::SmallVector<py::object, 8> leaves;
  for (std::size_t leaf = 0; leaf < first.leaves().size(); ++leaf)
    leaves.push_back(wrapped([leaf](Element& element) { return named_leaf_to_python(element, leaf); }));
  const StructurePtr structure = first.structure();
  const TreeSpec& tree_spec = TreeSpec::of(structure);
  if (!tree_spec.holds_none()) return tree_spec.assemble(leaves);
  return tree_spec.assemble(leaves, wrapped([](const Element&) { return py::none(); }));
}

ElementReader::ElementReader(std::string where, Lists lists, Objects objects,
                             std::optional<ElementSpec> declared)
    : where_(std::move(where)),
      lists_(lists),
      objects_(objects),
      lists_in_known_(declared ? Lists::kLeaf : lists) {
  if (!declared) return;
  const TreeSpec& tree = TreeSpec::of(declared->structure);
  known_ = std::make_shared<const Known>(Known{*std::move(declared), &tree});
}

const ElementReader::Known* ElementReader::known() const {
  const StateGuard guard;
  return known_.get();
}

void ElementReader::learn(const Element& first) const {
  auto known = std::make_shared<const Known>(Known{spec_of(first), &TreeSpec::of(first.structure())});
  const StateGuard guard;
  if (!known_) known_ = std::move(known);
}

Leaf ElementReader::read_leaf(PyObject* value, const UserObject* maker, const LeafSpec* like) const {
  Leaf result = leaf_from_python(value, objects_, like);
  // The Python object of a dataset may be gone before C++ reads it.
  if (auto* const dataset = std::get_if<NodePtr>(&result)) *dataset = keep_code(std::move(*dataset), maker);
  return result;
}

Element ElementReader::read(py::handle value, const UserObject* maker, const std::string& row) const {
  const Known* const known = this->known();
  Flat flat;
  const bool same = known != nullptr && known->tree->match(value.ptr(), lists_in_known_, flat.leaves);
  if (same) {
    flat.structure = known->type.structure;
  } else {
    flat = flatten(value, lists_, where(row));
  }
  std::vector<Leaf> leaves;
  leaves.reserve(flat.leaves.size());
  const auto place = [&] { return where(row) + ": "; };
  for (PyObject* const leaf : flat.leaves) {
    const LeafSpec* const like = same ? &known->type.leaves[leaves.size()] : nullptr;
    with_leaf_name(*flat.structure, leaves.size(), place,
                   [&] { leaves.push_back(read_leaf(leaf, maker, like)); });
  }
  Element element(std::move(flat.structure), std::move(leaves));
  if (known == nullptr) learn(element);
  return element;
}

py::object state_to_python(const State& state) { return std::visit(StateWriter{}, state.value()); }

State state_from_python(py::handle value) { return StateFromPython().read(value, {}); }

namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

py::object network_to_python(const std::optional<NetworkStats>& network) {
  if (!network) return py::none();
  using namespace py::literals;
  return py::module_::import("torch_distinput.observe._network")
      .attr("NetworkStats")(
          "bytes"_a = network->bytes, "wasted_bytes"_a = network->wasted_bytes,
          "requests"_a = network->requests, "retries"_a = network->retries, "hedges"_a = network->hedges,
          "hedges_won"_a = network->hedges_won, "throttled"_a = network->throttled,
          "stalled"_a = network->stalled, "wait_seconds"_a = seconds(network->wait_ns),
          "busy_seconds"_a = seconds(network->busy_ns), "full_seconds"_a = seconds(network->full_ns),
          "request_seconds"_a = seconds(network->request_ns),
          "answer_seconds"_a = seconds(network->answer_ns), "answer_p50"_a = seconds(network->answer_p50),
          "answer_p99"_a = seconds(network->answer_p99), "limit"_a = network->limit,
          "cached_bytes"_a = network->cached_bytes, "cached_blocks"_a = network->cached_blocks,
          "damaged_blocks"_a = network->damaged_blocks);
}

}  // namespace

py::object stats_to_python(const Stats& stats) {
  const auto mean = [&](std::int64_t sum) {
    return stats.queue_looks == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(stats.queue_looks);
  };
  py::tuple histogram(stats.wait_histogram.size());
  for (std::size_t i = 0; i < stats.wait_histogram.size(); ++i)
    histogram[i] = py::int_(stats.wait_histogram[i]);
  using namespace py::literals;
  return py::module_::import("torch_distinput.observe._stats")
      .attr("Stats")(
          "batches"_a = stats.batches, "rows"_a = stats.rows, "bytes"_a = stats.bytes,
          "waits"_a = stats.waits, "allocations"_a = stats.allocations, "skipped"_a = stats.skipped,
          "rounds"_a = stats.rounds, "copies"_a = stats.copies, "copied_bytes"_a = stats.copied_bytes,
          "wait_seconds"_a = seconds(stats.wait_ns), "consumer_seconds"_a = seconds(stats.consumer_ns),
          "peer_seconds"_a = seconds(stats.peer_ns), "wait_histogram"_a = std::move(histogram),
          "read_seconds"_a = seconds(stats.read_ns), "build_seconds"_a = seconds(stats.build_ns),
          "python_seconds"_a = seconds(stats.python_ns), "copy_seconds"_a = seconds(stats.copy_ns),
          "waited_read_seconds"_a = seconds(stats.waited_read_ns),
          "waited_build_seconds"_a = seconds(stats.waited_build_ns),
          "waited_python_seconds"_a = seconds(stats.waited_python_ns),
          "waited_copy_seconds"_a = seconds(stats.waited_copy_ns), "queue_ready"_a = mean(stats.queue_ready),
          "queue_room"_a = mean(stats.queue_room), "sampled"_a = py::tuple(py::cast(stats.sampled)),
          "network"_a = network_to_python(stats.network));
}

}  // namespace torch_distinput
