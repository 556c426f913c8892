// Optimizer steps that match the previous step: handled in one call before and one after, because
// the Python code that would find that nothing changed costs more than everything else a small step
// records.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "bindings.h"
#include "capture/capture.h"
#include "gathered_tensors.h"

namespace gpumemprof::bindings {
namespace {

using capture::TensorPlaces;
using Change = TensorPlaces::Change;

constexpr std::int64_t kNoSet = -1;

// What was done without Python since expect().
struct DoneSteps {
  std::uint32_t steps = 0;
  std::int64_t gradient_labels = kNoSet;
  bool is_open = false;  // the last of these steps has not ended
};

// What a step of one optimizer needs to match the previous step.
struct Expected {
  nb::object optimizer;  // a weak reference
  nb::object keeps_places;
  TensorPlaces* places = nullptr;
  nb::tuple kinds;
  std::uint32_t number = 0;
  std::int64_t labels = kNoSet;  // numbers of label sets
  std::int64_t gradient_labels = kNoSet;
  std::size_t gradient_count = 0;
  PyObject* state = nullptr;  // only compared
  Py_ssize_t state_size = 0;
  std::uint32_t steps_left = 0;
  std::uint32_t steps_done = 0;
  bool is_open = false;  // between before() and after()
};

bool refers_to(const nb::object& reference, nb::handle object) {
#if PY_VERSION_HEX >= 0x030D0000 && !defined(Py_LIMITED_API)
  PyObject* found = nullptr;
  if (PyWeakref_GetRef(reference.ptr(), &found) != 1) return false;
  Py_DECREF(found);
  return found == object.ptr();
#else
  return PyWeakref_GetObject(reference.ptr()) == object.ptr();
#endif
}

void apply(std::int64_t set) {
  if (set != kNoSet) capture::apply_labels(static_cast<capture::LabelSetNumber>(set));
}

class UnchangedSteps {
 public:
  // The next steps of the optimizer, at most this many, may match its last one.
  void expect(const nb::object& optimizer, nb::object places, nb::tuple kinds, std::uint32_t number,
              std::int64_t labels, std::int64_t gradient_labels, std::size_t gradient_count,
              std::uint32_t steps) {
    forget(optimizer);
    Expected expected;
    expected.optimizer = nb::steal(PyWeakref_NewRef(optimizer.ptr(), nullptr));
    if (!expected.optimizer.is_valid()) throw nb::python_error();
    expected.places = nb::cast<TensorPlaces*>(places);
    expected.keeps_places = std::move(places);
    expected.kinds = std::move(kinds);
    expected.number = number;
    expected.labels = labels;
    expected.gradient_labels = gradient_labels;
    expected.gradient_count = gradient_count;
    const nb::object state = optimizer.attr("state");
    if (!PyDict_Check(state.ptr())) return;
    expected.state = state.ptr();
    expected.state_size = PyDict_Size(state.ptr());
    expected.steps_left = steps;
    expected_.push_back(std::move(expected));
  }

  // False: Python must check for itself.
  bool before(nb::handle optimizer) {
    Expected* expected = find(optimizer);
    if (expected == nullptr || expected->steps_left == 0 || expected->is_open) return false;
    --expected->steps_left;
    ++expected->steps_done;
    expected->is_open = true;
    capture::mark_phase(PhaseMark::Kind::optimizer_start, expected->number);
    return true;
  }

  // False: Python must check for itself, as after a step whose labels were deferred.
  bool after(nb::handle optimizer) {
    Expected* expected = find(optimizer);
    if (expected == nullptr || !expected->is_open || !is_like_before(*expected, optimizer))
      return false;
    expected->is_open = false;
    capture::mark_phase(PhaseMark::Kind::optimizer_end, expected->number);
    apply(expected->gradient_labels);
    apply(expected->labels);
    return true;
  }

  // None where nothing was expected.
  std::optional<DoneSteps> forget(nb::handle optimizer) {
    Expected* expected = find(optimizer);
    if (expected == nullptr) return std::nullopt;
    const DoneSteps done{expected->steps_done, expected->gradient_labels, expected->is_open};
    expected_.erase(expected_.begin() + (expected - expected_.data()));
    return done;
  }

  void clear() { expected_.clear(); }

 private:
  Expected* find(nb::handle optimizer) {
    const auto found = std::ranges::find_if(expected_, [&](const Expected& expected) {
      return refers_to(expected.optimizer, optimizer);
    });
    return found == expected_.end() ? nullptr : &*found;
  }

  bool is_like_before(Expected& expected, nb::handle optimizer) {
    const nb::object state = nb::getattr(optimizer, "state", nb::none());
    if (state.ptr() != expected.state || PyDict_Size(state.ptr()) != expected.state_size)
      return false;
    const nb::object groups = nb::getattr(optimizer, "param_groups", nb::none());
    tensors_.clear();
    if (!PyList_Check(groups.ptr()) ||
        !gather_tensors(nb::borrow<nb::list>(groups), expected.kinds, tensors_))
      return false;
    const Change change = expected.places->read(tensors_);
    if (change == Change::none) return true;
    if (change == Change::other || expected.gradient_labels == kNoSet ||
        expected.places->gradient_count() != expected.gradient_count) {
      expected.places->forget();  // so that Python's own check does not take it for unchanged
      return false;
    }
    expected.gradient_labels =
        capture::move_labels(static_cast<capture::LabelSetNumber>(expected.gradient_labels),
                             expected.places->gradients());
    return true;
  }

  std::vector<Expected> expected_;
  std::vector<std::uintptr_t> tensors_;
};

}  // namespace

void bind_steps(nb::module_& module) {
  nb::class_<DoneSteps>(module, "DoneSteps")
      .def_ro("steps", &DoneSteps::steps)
      .def_ro("gradient_labels", &DoneSteps::gradient_labels)
      .def_ro("is_open", &DoneSteps::is_open);
  nb::class_<UnchangedSteps>(module, "UnchangedSteps")
      .def(nb::init<>())
      .def("expect", &UnchangedSteps::expect, nb::arg("optimizer"), nb::arg("places"),
           nb::arg("kinds"), nb::arg("number"), nb::arg("labels"), nb::arg("gradient_labels"),
           nb::arg("gradient_count"), nb::arg("steps"))
      .def("before", &UnchangedSteps::before, nb::arg("optimizer"))
      .def("after", &UnchangedSteps::after, nb::arg("optimizer"))
      .def("forget", &UnchangedSteps::forget, nb::arg("optimizer"))
      .def("clear", &UnchangedSteps::clear);
}

}  // namespace gpumemprof::bindings
