// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/user_object.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>

#include "bindings/collected.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/state_guard.h"
#include "torch_distinput/error.h"
#include "torch_distinput/function.h"

namespace torch_distinput {

/// The content of a box: a user's object, or the references of a dataset that has no Python handle.
class Box {
 public:
  Box(py::object object, CodeReferences references, Box* maker)
      : object_(std::move(object)), references_(std::move(references)), maker_(maker) {
    if (maker_ == nullptr) return;
    const StateGuard guard;
    maker_->below_.push_back(this);
  }
  ~Box() {
    const StateGuard guard;
    for (Box* const box : below_) box->maker_ = nullptr;
    if (maker_ != nullptr) std::erase(maker_->below_, this);
  }
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  py::object object() const noexcept {
    const StateGuard guard;
    return object_;
  }
  py::object self() const { return py::reinterpret_borrow<py::object>(self_); }
  /// Sets the Python object of a new box.
  void set_self(py::handle self) noexcept { self_ = self.ptr(); }
  void add_handle() noexcept {
    const StateGuard guard;
    ++handles_;
  }
  void remove_handle() noexcept {
    const StateGuard guard;
    --handles_;
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(object_.ptr());
    if (const int result = references_.traverse(visit, arg); result != 0) return result;
    if (handles_ > 0) Py_VISIT(self_);
    for (const Box* const box : below_) Py_VISIT(box->self_);
    return 0;
  }
  void clear() {
    references_.clear();
    py::object dropped;
    const StateGuard guard;
    dropped = std::move(object_);
  }

 private:
  py::object object_;
  CodeReferences references_;
  PyObject* self_ = nullptr;
  int handles_ = 0;          ///< Python handles whose pipelines may call the object
  Box* maker_;               ///< of the callable that returned the object; may be null
  std::vector<Box*> below_;  ///< the boxes whose maker this is
};

namespace {

/// The boxes of all users' code in `pipelines`.
std::vector<Box*> boxes_in(std::vector<NodePtr> pipelines) {
  std::vector<Box*> boxes;
  std::unordered_set<const Node*> seen;
  while (!pipelines.empty()) {
    const NodePtr node = std::move(pipelines.back());
    pipelines.pop_back();
    if (!seen.insert(node.get()).second) continue;
    for (const UserCode* const code : node->user_code()) {
      if (const auto* python = dynamic_cast<const PythonCode*>(code))
        boxes.push_back(&python->object().box());
    }
    for (NodePtr& input : node->inputs()) pipelines.push_back(std::move(input));
  }
  return boxes;
}

}  // namespace

UserObject::UserObject(py::object object, CodeReferences references, Box* maker) {
  auto box = std::make_unique<Box>(std::move(object), std::move(references), maker);
  box_ = box.get();
  py::object self = py::cast(std::move(box));
  box_->set_self(self);
  reference_ = share(std::move(self));
}

UserObject::UserObject(py::object object) : UserObject(std::move(object), {}, nullptr) {}

UserObject::UserObject(py::object object, const UserObject& maker)
    : UserObject(std::move(object), {}, maker.box_) {}

py::object UserObject::find() const { return box_->object(); }

py::object UserObject::get() const {
  py::object object = find();
  if (!object) throw FailedPreconditionError("a callable was called after the garbage collector cleared it.");
  return object;
}

CodeReferences::CodeReferences(std::vector<NodePtr> pipelines) {
  for (Box* const box : boxes_in(std::move(pipelines))) {
    boxes_.push_back({box->self(), box});
    box->add_handle();
  }
}

int CodeReferences::traverse(visitproc visit, void* arg) const {
  for (const Reference& reference : boxes_) Py_VISIT(reference.object.ptr());
  return 0;
}

void CodeReferences::clear() noexcept {
  std::vector<Reference> boxes = std::exchange(boxes_, {});
  for (const Reference& reference : boxes) reference.box->remove_handle();
  run_python([&] { boxes.clear(); });
}

NodePtr keep_code(NodePtr node, const UserObject* maker) {
  CodeReferences references({node});
  if (references.empty()) return node;
  struct Kept {
    NodePtr node;
    UserObject references;
  };
  const auto kept = std::make_shared<const Kept>(
      Kept{node, UserObject({}, std::move(references), maker == nullptr ? nullptr : &maker->box())});
  return {kept, kept->node.get()};
}

void bind_user_objects(py::module_& module) {
  // Emptied before the collector clears anything: what a thread has taken out of the box by then stays whole,
  // and nobody takes out a function that is half cleared.
  const py::custom_type_setup emptied_first([](PyHeapTypeObject* heap_type) {
    collected<std::unique_ptr<Box>>().value(heap_type);
    heap_type->ht_type.tp_finalize = [](PyObject* self) {
      const py::error_scope keep_error;
      Py_TYPE(self)->tp_clear(self);
    };
  });
  py::class_<Box>(module, "Box", emptied_first,
                  "Holds a user's object for a pipeline, so that the garbage collector sees it.");
}

}  // namespace torch_distinput
