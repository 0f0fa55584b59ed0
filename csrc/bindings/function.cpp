// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/function.h"

#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/row_names.h"
#include "base/stage.h"
#include "bindings/callable.h"
#include "bindings/convert.h"
#include "bindings/interpreter/calling_python.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/torch_tensor.h"
#include "bindings/user_object.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

/// As `calling_python`, and counts the time, also of waiting for the GIL.
template <class Body>
auto with_gil(Body&& body) {
  const StageScope stage(Stage::kPython);
  return calling_python(body);
}

class PythonFunction final : public Function, public PythonCode {
 public:
  PythonFunction(Callable callable, const std::optional<ElementSpec>& declared)
      : callable_(std::move(callable)),
        results_(callable_.where(), Lists::kLeaf, Objects::kCarry, declared) {}

  const UserObject& object() const override { return callable_.object(); }

  void apply(std::span<Element> elements) const override {
    with_gil([&] {
      for (std::size_t row = 0; row < elements.size(); ++row) {
        RowScope::enter(row);
        const auto name = [] { return element_name(RowScope::current_number()); };
        const py::object result = callable_(arguments_of(std::move(elements[row])), name);
        elements[row] = results_.read(result, &object(), name());
      }
    });
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::string name() const override { return callable_.name(); }

 private:
  Callable callable_;
  ElementReader results_;
};

/// A callable from a list of elements to a sequence of as many results. Where it raises for several, it is
/// asked for one at a time, so that the row that it cannot take is named.
class PythonBlockFunction final : public Function, public PythonCode {
 public:
  explicit PythonBlockFunction(Callable callable)
      : callable_(std::move(callable)), results_(callable_.where(), Lists::kLeaf, Objects::kCarry) {}

  const UserObject& object() const override { return callable_.object(); }

  void apply(std::span<Element> elements) const override {
    with_gil([&] {
      py::list rows(elements.size());
      for (std::size_t row = 0; row < elements.size(); ++row)
        rows[row] = element_to_python(std::move(elements[row]));
      try {
        return call(rows, 0, elements);
      } catch (const std::exception&) {
        if (elements.size() == 1) throw;
      }
      for (std::size_t row = 0; row < elements.size(); ++row) {
        py::list one(1);
        one[0] = rows[row];
        call(one, row, elements.subspan(row, 1));
      }
    });
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::string name() const override { return callable_.name(); }

 private:
  /// The results for `rows`, of which the first is that with index `first` of this thread's RowScope.
  void call(const py::list& rows, std::size_t first, std::span<Element> results) const {
    RowScope::enter(first);
    const auto name = [] { return element_name(RowScope::current_number()); };
    const py::object given = callable_(py::make_tuple(rows), name);
    std::size_t count = 0;
    for (const auto result : given) {
      if (count < results.size()) {
        RowScope::enter(first + count);
        results[count] = results_.read(result, &object(), name());
      }
      ++count;
    }
    TORCH_CHECK_VALUE(count == results.size(), callable_.where(), ": ", name(), ": ", results.size(),
                      " results are needed, but ", count, " were returned.");
  }

  Callable callable_;
  ElementReader results_;
};

class PythonGenerator final : public Generator {
 public:
  PythonGenerator(py::object iterator, Callable callable, ElementReader reader)
      : callable_(std::move(callable)),
        iterator_(std::move(iterator), callable_.object()),
        reader_(std::move(reader)) {}

  ~PythonGenerator() override {
    if (!interpreter_alive()) return;
    try {
      const GilScope gil;
      const py::error_scope keep_error;
      const py::object iterator = iterator_.find();
      if (!iterator || !PyGen_CheckExact(iterator.ptr())) return;
      const auto closed = py::reinterpret_steal<py::object>(
          run_python([&] { return PyObject_CallMethod(iterator.ptr(), "close", nullptr); }));
      if (!closed) PyErr_WriteUnraisable(iterator.ptr());
    } catch (const std::exception&) {
      return;  // the interpreter has begun to shut down
    }
  }

  std::optional<Element> next() override {
    return with_gil([&]() -> std::optional<Element> {
      const py::object iterator = iterator_.get();
      const auto item =
          py::reinterpret_steal<py::object>(run_python([&] { return PyIter_Next(iterator.ptr()); }));
      if (PyErr_Occurred() != nullptr) callable_.fail(element_name(element_));
      if (!item) return std::nullopt;
      return reader_.read(item, &callable_.object(), element_name(element_++));
    });
  }

 private:
  Callable callable_;
  UserObject iterator_;
  ElementReader reader_;
  std::int64_t element_ = 0;  ///< the next one
};

class PythonGeneratorSource final : public GeneratorSource, public PythonCode {
 public:
  PythonGeneratorSource(Callable callable, ElementReader reader)
      : callable_(std::move(callable)), reader_(std::move(reader)) {}

  const UserObject& object() const override { return callable_.object(); }

  std::unique_ptr<Generator> open() const override {
    return with_gil([&]() -> std::unique_ptr<Generator> {
      const auto first = [] { return element_name(0); };
      const py::object iterable = callable_(py::tuple(), first);
      auto iterator =
          py::reinterpret_steal<py::object>(run_python([&] { return PyObject_GetIter(iterable.ptr()); }));
      if (!iterator) callable_.fail(first());
      return std::make_unique<PythonGenerator>(std::move(iterator), callable_, reader_);
    });
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::string name() const override { return callable_.name(); }

 private:
  Callable callable_;
  ElementReader reader_;
};

class PythonRows final : public RowSource, public PythonCode {
 public:
  PythonRows(Callable rows, std::int64_t size)
      : rows_(std::move(rows)), size_(size), reader_(rows_.where(), Lists::kStructure, Objects::kCarry) {}

  const UserObject& object() const override { return rows_.object(); }
  std::int64_t size() const override { return size_; }
  std::vector<Element> rows(std::span<const std::int64_t> positions) const override {
    return with_gil([&] {
      py::list wanted(positions.size());
      for (std::size_t i = 0; i < positions.size(); ++i) wanted[i] = py::int_(positions[i]);
      const auto name = [&] { return rows_name(positions); };
      const py::object given = rows_(py::make_tuple(std::move(wanted)), name);
      std::vector<Element> elements;
      elements.reserve(positions.size());
      for (const auto row : given) {
        const bool asked = elements.size() < positions.size();
        const auto position = asked ? positions.subspan(elements.size(), 1) : positions;
        elements.push_back(reader_.read(row, &object(), rows_name(position)));
      }
      TORCH_CHECK_VALUE(elements.size() == positions.size(), rows_.where(), ": ", positions.size(),
                        " rows were asked for, but ", elements.size(), " were returned.");
      return elements;
    });
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::string name() const override { return rows_.name(); }
  std::string content() const override {
    return with_gil([&] { return object().get().attr("content")().cast<std::string>(); });
  }

 private:
  Callable rows_;
  std::int64_t size_;
  ElementReader reader_;
};

void check_callable(py::handle value, const std::string& op) {
  TORCH_CHECK_TYPE(PyCallable_Check(value.ptr()), op, ": a callable is needed, but got a ",
                   Py_TYPE(value.ptr())->tp_name, ".");
}

}  // namespace

py::tuple arguments_of(Element&& element) {
  const bool several = element.structure()->kind() == Structure::Kind::kTuple;
  py::object value = element_to_python(std::move(element));
  return several ? py::tuple(std::move(value)) : py::make_tuple(std::move(value));
}

std::string callable_name(py::handle callable) {
  const py::object name = py::getattr(callable, "__name__", py::none());
  if (py::isinstance<py::str>(name)) return name.cast<std::string>();
  return Py_TYPE(callable.ptr())->tp_name;
}

FunctionPtr make_python_function(py::object callable, const std::string& op,
                                 const std::optional<ElementSpec>& declared) {
  check_callable(callable, op);
  std::string name = callable_name(callable);
  return std::make_shared<PythonFunction>(Callable(UserObject(std::move(callable)), op, std::move(name)),
                                          declared);
}

FunctionPtr make_python_block_function(py::object callable, const std::string& op) {
  check_callable(callable, op);
  std::string name = callable_name(callable);
  return std::make_shared<PythonBlockFunction>(
      Callable(UserObject(std::move(callable)), op, std::move(name)));
}

std::shared_ptr<const GeneratorSource> make_python_generator(py::object callable, Lists lists,
                                                             const std::optional<ElementSpec>& declared,
                                                             std::string name) {
  const std::string op = "from_generator";
  check_callable(callable, op);
  const Callable named(UserObject(std::move(callable)), op, std::move(name));
  return std::make_shared<PythonGeneratorSource>(
      named, ElementReader(named.where(), lists, Objects::kCarry, declared));
}

std::shared_ptr<const RowSource> make_python_rows(py::object rows, std::int64_t size, std::string name) {
  return std::make_shared<PythonRows>(Callable(UserObject(std::move(rows)), "from_rows", std::move(name)),
                                      size);
}

RowCost row_cost_from_python(const py::object& cost, const std::string& op) {
  if (is_tensor(cost.ptr())) return unwrap_tensor(cost.ptr());
  if (py::isinstance<py::str>(cost)) return cost.cast<std::string>();
  return make_python_function(cost, op);
}

}  // namespace torch_distinput
