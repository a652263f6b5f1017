#include "agree_binding.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <map>

#include "refused_value.h"
#include "ripieno/core/edit_distance.h"
#include "ripieno/loop/agree.h"

namespace {

namespace py = pybind11;
using ripieno::Agreement;
using ripieno::AgreeOptions;
using ripieno::ErrorKind;

/// An object of Python's that is used, and let go of, on threads without the interpreter's lock.
using Shared = std::shared_ptr<py::object>;

Shared shared(py::object object) {
  const auto let_go = [](py::object* held) {
    const py::gil_scoped_acquire locked;
    delete held;
  };
  return {new py::object(std::move(object)), let_go};
}

/// The module's tensors in a module of LibTorch's, under the same names.
class Mirror : public torch::nn::Module {
 public:
  using Tensors = std::vector<std::pair<std::string, at::Tensor>>;
  Mirror(const Tensors& parameters, const Tensors& buffers) {
    for (const auto& [name, tensor] : parameters) {
      std::string last = name;
      torch::nn::Module& part = part_of(last);
      part.register_parameter(last, tensor, tensor.requires_grad());
    }
    for (const auto& [name, tensor] : buffers) {
      std::string last = name;
      torch::nn::Module& part = part_of(last);
      part.register_buffer(last, tensor);
    }
  }

 private:
  /// Makes the modules that the name is in, and leaves its last part.
  torch::nn::Module& part_of(std::string& name) {
    torch::nn::Module* part = this;
    std::string path;
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.')) {
      path += name.substr(0, dot + 1);
      auto& known = parts_[path];
      if (!known) known = part->register_module(name.substr(0, dot), std::make_shared<torch::nn::Module>());
      part = known.get();
      name.erase(0, dot + 1);
    }
    return *part;
  }

  std::map<std::string, std::shared_ptr<torch::nn::Module>> parts_;
};

/// An option by the name that it has in Python.
struct NamedOption {
  const char* name;
  void (*set)(AgreeOptions& options, const py::handle& value);
};

#define RIPIENO_OPTION(option)                                                                             \
  NamedOption {                                                                                            \
    #option, [](AgreeOptions& o, const py::handle& value) { o.option = value.cast<decltype(o.option)>(); } \
  }

ripieno::strategy::Statistics statistics_of(const std::string& name) {
  using ripieno::strategy::Statistics;
  if (name == "rank0") return Statistics::rank0;
  if (name == "mean") return Statistics::mean;
  if (name == "local") return Statistics::local;
  ripieno::fail(ErrorKind::usage, "batch_norm = ", name, "; known are rank0, mean, local");
}

const std::array named_options{
    RIPIENO_OPTION(steps),
    RIPIENO_OPTION(fragments),
    RIPIENO_OPTION(delay),
    RIPIENO_OPTION(passes),
    RIPIENO_OPTION(servers),
    RIPIENO_OPTION(staleness),
    RIPIENO_OPTION(local_epochs),
    RIPIENO_OPTION(deltas),
    NamedOption{"batch_norm",
                [](AgreeOptions& o, const py::handle& v) { o.batch_norm = statistics_of(v.cast<std::string>()); }},
    RIPIENO_OPTION(outer.learning_rate),
    RIPIENO_OPTION(outer.momentum),
    RIPIENO_OPTION(outer.beta1),
    RIPIENO_OPTION(outer.beta2),
    RIPIENO_OPTION(outer.epsilon),
    RIPIENO_OPTION(codec.name),
    RIPIENO_OPTION(codec.error_feedback),
    RIPIENO_OPTION(codec.block),
    RIPIENO_OPTION(codec.bits),
    RIPIENO_OPTION(codec.fraction),
    RIPIENO_OPTION(codec.rank),
    RIPIENO_OPTION(route),
    RIPIENO_OPTION(small_route),
    RIPIENO_OPTION(small_kb),
    RIPIENO_OPTION(segment_kb),
    RIPIENO_OPTION(bucket_mb),
    RIPIENO_OPTION(seed),
    RIPIENO_OPTION(steps_per_epoch),
    RIPIENO_OPTION(samples_per_epoch),
    RIPIENO_OPTION(uneven_batches),
    RIPIENO_OPTION(own_rates),
};

#undef RIPIENO_OPTION

AgreeOptions options_of(const py::dict& given) {
  AgreeOptions options;
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    const NamedOption& option = ripieno::find_named(named_options, name, "option");
    try {
      option.set(options, value);
    } catch (const py::cast_error&) {
      refuse_value(name, value);
    }
  }
  return options;
}

/// Of python/ripieno/agreement.py's _UsersOptimiser.
ripieno::loop::UsersOptimiser users_optimiser_of(const Shared& optimiser) {
  ripieno::loop::UsersOptimiser made;
  made.step = [optimiser] {
    const py::gil_scoped_acquire locked;
    optimiser->attr("step")();
  };
  made.rates = [optimiser] {
    const py::gil_scoped_acquire locked;
    return optimiser->attr("rates")().cast<std::vector<double>>();
  };
  made.on_servers = [optimiser] {
    const py::gil_scoped_acquire locked;
    const auto given = optimiser->attr("on_servers")().cast<py::dict>();
    ripieno::optim::OptimiserOptions options;
    options.name = given["name"].cast<std::string>();
    options.weight_decay = given["weight_decay"].cast<double>();
    if (options.name == "sgd") {
      options.momentum = given["momentum"].cast<double>();
      options.nesterov = given["nesterov"].cast<bool>();
    } else {
      std::tie(options.beta1, options.beta2) = given["betas"].cast<std::tuple<double, double>>();
      options.epsilon = given["eps"].cast<double>();
    }
    return options;
  };
  made.parameters = [optimiser] {
    const py::gil_scoped_acquire locked;
    return optimiser->attr("parameters")().cast<std::vector<at::Tensor>>();
  };
  return made;
}

std::unique_ptr<Agreement> make_agreement(ripieno::c10d::Backend& group, const Mirror::Tensors& parameters,
                                          const Mirror::Tensors& buffers, py::object optimiser,
                                          const std::string& strategy, const py::dict& given) {
  const AgreeOptions options = options_of(given);
  const Shared held = shared(std::move(optimiser));
  const auto counted = ripieno::ProcessGroup::reclaim_copy(&group);
  const py::gil_scoped_release unlocked;
  return std::make_unique<Agreement>(std::make_shared<Mirror>(parameters, buffers), users_optimiser_of(held), counted,
                                     strategy, options);
}

/// Ends the agreement without the interpreter's lock: its strategy may want that.
struct EndsUnlocked {
  void operator()(Agreement* agreement) const {
    const py::gil_scoped_release unlocked;
    delete agreement;
  }
};

}  // namespace

void bind_agree(py::module_& module) {
  using Held = std::unique_ptr<Agreement, EndsUnlocked>;
  py::class_<Agreement, Held>(module, "Agreement")
      .def(py::init([](ripieno::c10d::Backend& group, const Mirror::Tensors& parameters, const Mirror::Tensors& buffers,
                       py::object optimiser, const std::string& strategy, const py::dict& options) {
             return Held(make_agreement(group, parameters, buffers, std::move(optimiser), strategy, options).release());
           }),
           py::arg("group"), py::arg("parameters"), py::arg("buffers"), py::arg("optimiser"), py::arg("strategy"),
           py::arg("options"))
      .def("step", py::overload_cast<>(&Agreement::step), py::call_guard<py::gil_scoped_release>())
      .def("step", py::overload_cast<std::int64_t>(&Agreement::step), py::arg("samples"),
           py::call_guard<py::gil_scoped_release>())
      .def("finish", &Agreement::finish, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("steps", &Agreement::steps);
}
