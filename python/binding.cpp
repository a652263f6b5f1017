// The module ripieno._ripieno: what Python sees of the library. python/ripieno/ gives it its face.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "agree_binding.h"
#include "refused_value.h"
#include "ripieno/c10d/backend.h"
#include "ripieno/core/error.h"
#include "run_binding.h"

namespace {

using ripieno::c10d::Backend;

/// Lets go of an object without the interpreter's lock: its destructor waits for threads that may need that.
template <class T>
class Unlocked {
 public:
  Unlocked() = default;
  explicit Unlocked(T* object) : pointer_(c10::intrusive_ptr<T>::unsafe_steal_from_new(object)) {}
  explicit Unlocked(c10::intrusive_ptr<T> pointer) : pointer_(std::move(pointer)) {}
  Unlocked(const Unlocked&) = default;
  Unlocked(Unlocked&&) noexcept = default;
  Unlocked& operator=(const Unlocked&) = default;
  Unlocked& operator=(Unlocked&&) noexcept = default;
  ~Unlocked() {
    if (!PyGILState_Check()) {
      pointer_.reset();
      return;
    }
    const pybind11::gil_scoped_release unlocked;
    pointer_.reset();
  }
  T* get() const { return pointer_.get(); }
  T& operator*() const { return *pointer_; }
  T* operator->() const { return pointer_.get(); }

 private:
  c10::intrusive_ptr<T> pointer_;
};

ripieno::observe::Traffic traffic_of(Backend& group) {
  const pybind11::gil_scoped_release unlocked;
  return group.ledger().total();
}

/// The groups of this process that are still there.
class Groups {
 public:
  void add(const c10::intrusive_ptr<Backend>& group) {
    const auto alive =
        std::partition(groups_.begin(), groups_.end(), [](const Made& one) { return !one.group.expired(); });
    std::vector<Made> gone(std::make_move_iterator(alive), std::make_move_iterator(groups_.end()));
    groups_.erase(alive, groups_.end());
    groups_.push_back({c10::weak_intrusive_ptr<Backend>(group), ::getpid()});
    const pybind11::gil_scoped_release unlocked;
    gone.clear();  // ends their threads, which may want the interpreter
  }
  /// Ends them, and whatever runs on threads of theirs.
  void leave() const {
    const std::vector<c10::intrusive_ptr<Backend>> left = alive();
    const pybind11::gil_scoped_release unlocked;
    for (const auto& group : left) group->shutdown();
    for (const auto& group : left) group->leave();
  }
  /// Ends them on all ranks, which are told why. This process is about to end.
  void end(const std::string& why) const {
    const std::vector<c10::intrusive_ptr<Backend>> left = alive();
    const pybind11::gil_scoped_release unlocked;
    for (const auto& group : left) group->end_with_process(why);
  }

 private:
  std::vector<c10::intrusive_ptr<Backend>> alive() const {
    std::vector<c10::intrusive_ptr<Backend>> found;
    for (const Made& made : groups_) {
      if (made.by != ::getpid()) continue;  // this is a fork of that process
      if (auto group = made.group.lock()) found.push_back(std::move(group));
    }
    return found;
  }

  struct Made {
    c10::weak_intrusive_ptr<Backend> group;
    int by;
  };
  std::vector<Made> groups_;
};

void set_option(ripieno::codec::CodecOptions& options, const std::string& name, const pybind11::handle& value) {
  if (name == "error_feedback") {
    options.error_feedback = value.cast<bool>();
  } else if (name == "block") {
    options.block = value.cast<std::size_t>();
  } else if (name == "bits") {
    options.bits = value.cast<int>();
  } else if (name == "fraction") {
    options.fraction = value.cast<double>();
  } else if (name == "rank") {
    options.rank = value.cast<int>();
  } else {
    ripieno::fail(ripieno::ErrorKind::internal, "a codec has no option ", name);
  }
}

/// Raises it with the attribute `loss`: a ripieno.Loss, or None.
void raise(const py::object& type, const ripieno::Error& error) {
  py::object raised = type(error.what());
  py::object loss = py::none();
  if (const auto& lost = error.loss())
    loss = py::module_::import("ripieno.loss").attr("Loss")(lost->rank, ripieno::name(lost->how), lost->told_by);
  raised.attr("loss") = loss;
  PyErr_SetObject(type.ptr(), raised.ptr());
}

/// The library's errors as Python's: ValueError for wrong arguments, DistBackendError (a RuntimeError) for peers,
/// networks and ranks that disagree, else RuntimeError.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const ripieno::Error& error) {
    using ripieno::ErrorKind;
    const ErrorKind kind = error.kind();
    if (kind == ErrorKind::usage) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } else if (kind == ErrorKind::peer || kind == ErrorKind::network || kind == ErrorKind::mismatch) {
      raise(py::module_::import("torch._C").attr("_DistBackendError"), error);
    } else {
      raise(py::reinterpret_borrow<py::object>(PyExc_RuntimeError), error);
    }
  }
}

/// What a hook keeps, as Python's own types.
std::vector<py::dict> dicts_of(ripieno::c10d::BucketAverages& averages) {
  std::vector<py::dict> all;
  for (ripieno::c10d::KeptBucket& one : averages.kept()) {
    py::dict dict;
    dict["bucket"] = one.bucket;
    dict["shapes"] = one.shapes;
    dict["tensors"] = one.state.tensors;
    dict["numbers"] = one.state.numbers;
    all.push_back(std::move(dict));
  }
  return all;
}

void keep_dicts(ripieno::c10d::BucketAverages& averages, const std::vector<py::dict>& dicts) {
  std::vector<ripieno::c10d::KeptBucket> kept;
  for (const py::dict& dict : dicts) {
    ripieno::c10d::KeptBucket one;
    one.bucket = dict["bucket"].cast<int>();
    one.shapes = dict["shapes"].cast<ripieno::c10d::Shapes>();
    one.state.tensors = dict["tensors"].cast<std::map<std::string, at::Tensor>>();
    one.state.numbers = dict["numbers"].cast<std::map<std::string, std::int64_t>>();
    kept.push_back(std::move(one));
  }
  averages.keep(std::move(kept));
}

}  // namespace

PYBIND11_DECLARE_HOLDER_TYPE(T, Unlocked<T>, true)

PYBIND11_MODULE(_ripieno, module) {
  namespace py = pybind11;
  py::module_::import("torch._C._distributed_c10d");  // knows the types of c10d
  py::register_exception_translator(translate);

  // Without this, a thread of a group may want the interpreter while that is ending.
  const auto groups = std::make_shared<Groups>();
  const py::cpp_function leave([groups] { groups->leave(); });
  py::module_::import("atexit").attr("register")(leave);
  module.def(
      "end_groups", [groups](const std::string& why) { groups->end(why); }, py::arg("why"),
      "Ends all groups of this process, on all their ranks, which are told why. For a process that ends with an "
      "error.");

  py::class_<Backend, Unlocked<Backend>, c10d::Backend> backend(
      module, "ProcessGroupRipieno",
      R"(The backend of a process group of torch.distributed, over shared memory and TCP.

torch.distributed makes it for init_process_group("ripieno") and new_group(backend="ripieno"), and calls it.

store: a store of torch.distributed, by which the ranks find each other. rank, size: of this process, of the group.
timeout: of each operation. group_name, global_ranks: for errors. backend_name: for profiles. enable_reconfigure:
nothing can be asked before torch.distributed._reconfigure(), of PyTorch 2.14.

ValueError: there is no such rank, ranks give different sizes, or PyTorch has no _reconfigure(). DistBackendError (a
RuntimeError), which names them: ranks have not come within the timeout.)");
  py::class_<Backend::Options, c10::intrusive_ptr<Backend::Options>, c10d::Backend::Options>(backend, "Options")
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout);
  using ripieno::c10d::BucketAverages;
  py::class_<BucketAverages, std::shared_ptr<BucketAverages>>(module, "BucketAverages")
      .def(py::init([](const std::string& codec, const py::dict& given) {
             ripieno::codec::CodecOptions options;
             options.name = codec;
             for (const auto& [key, value] : given) {
               const auto name = py::cast<std::string>(key);
               try {
                 set_option(options, name, value);
               } catch (const py::cast_error&) {
                 refuse_value(name, value);
               }
             }
             return std::make_shared<BucketAverages>(options);
           }),
           py::arg("codec"), py::arg("options"))
      .def("kept", &dicts_of)
      .def("keep", &keep_dicts, py::arg("kept"));
  backend
      .def(
          "_average",
          [](Backend& group, std::shared_ptr<BucketAverages> averages, int bucket, const at::Tensor& numbers,
             ripieno::c10d::Shapes shapes) {
            return group.average(std::move(averages), bucket, numbers, {std::move(shapes)});
          },
          py::arg("averages"), py::arg("bucket"), py::arg("numbers"), py::arg("shapes"),
          py::call_guard<py::gil_scoped_release>())
      .def(py::init([groups](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                             std::chrono::milliseconds timeout, const std::string& group,
                             std::vector<std::uint64_t> ranks, const std::string& name, bool enable_reconfigure) {
             auto options = c10::make_intrusive<Backend::Options>(timeout, name);
#ifndef C10D_BACKEND_HAS_RECONFIGURE
             if (enable_reconfigure) ripieno::fail(ripieno::ErrorKind::usage, "enable_reconfigure needs PyTorch 2.14");
#endif
             options->meets_later = enable_reconfigure;
             options->group_name = group;
             options->global_ranks_in_group = std::move(ranks);
             auto made = c10::make_intrusive<Backend>(store, rank, size, options);
             const py::gil_scoped_acquire locked;  // which guards the groups
             groups->add(made);
             return Unlocked<Backend>(std::move(made));
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout") = kBackendDefaultTimeout,
           py::arg("group_name") = "", py::arg("global_ranks") = std::vector<std::uint64_t>(),
           py::arg("backend_name") = "ripieno", py::arg("enable_reconfigure") = false,
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options", &Backend::getBackendOptions)
      .def("_ways", &Backend::ways)
      .def("_traffic", [](Backend& self) {
        const ripieno::observe::Traffic all = traffic_of(self);
        return py::dict(py::arg("payload_sent") = all.payload_sent, py::arg("payload_received") = all.payload_received,
                        py::arg("messages_sent") = all.messages_sent,
                        py::arg("messages_received") = all.messages_received);
      });
  bind_agree(module);
  bind_run(module);
}
