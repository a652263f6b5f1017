#include "run_binding.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/utils/pybind.h>

#include "refused_value.h"
#include "ripieno/loop/run_writer.h"

namespace py = pybind11;
using ripieno::RunWriter;
using ripieno::RunWriterOptions;

namespace {

/// The group of any backend, or none.
c10::intrusive_ptr<c10d::Backend> counted(c10d::Backend* group) {
  return group ? c10::intrusive_ptr<c10d::Backend>::reclaim_copy(group) : nullptr;
}

template <class T>
T option_of(const py::dict& given, const char* name) {
  const py::object value = given[name];
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    refuse_value(name, value);
  }
}

RunWriterOptions run_options_of(const py::dict& given) {
  RunWriterOptions options;
  options.folder = option_of<std::filesystem::path>(given, "folder");
  options.name = option_of<std::string>(given, "name");
  options.strategy = option_of<std::string>(given, "strategy");
  options.codec = option_of<std::string>(given, "codec");
  options.model = option_of<std::string>(given, "model");
  options.dataset = option_of<std::string>(given, "dataset");
  options.parameters = option_of<std::uint64_t>(given, "parameters");
  options.seed = option_of<std::int64_t>(given, "seed");
  options.epochs = option_of<std::uint32_t>(given, "epochs");
  options.steps_per_epoch = option_of<std::uint64_t>(given, "steps_per_epoch");
  options.first_epoch = option_of<std::uint32_t>(given, "first_epoch");
  options.settings = option_of<std::map<std::string, std::string>>(given, "settings");
  const auto sample_s = option_of<double>(given, "sample_s");
  if (!(sample_s >= 0)) refuse_value("sample_s", given["sample_s"]);
  options.sample_every = ripieno::from_seconds(sample_s);
  return options;
}

/// Ends the run without the interpreter's lock, which its threads may want.
struct EndsRunUnlocked {
  void operator()(RunWriter* run) const {
    const py::gil_scoped_release unlocked;
    delete run;
  }
};

}  // namespace

void bind_run(py::module_& module) {
  using Held = std::unique_ptr<RunWriter, EndsRunUnlocked>;
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<RunWriter, Held>(module, "RunWriter")
      .def(py::init([](c10d::Backend* group, const at::Device& device, const py::dict& given) {
             RunWriterOptions options = run_options_of(given);
             auto held = counted(group);
             const py::gil_scoped_release unlocked;
             return Held(new RunWriter(std::move(held), std::move(options), device));
           }),
           py::arg("group").none(true), py::arg("device"), py::arg("options"))
      .def("keep_digest_of", &RunWriter::keep_digest_of)
      .def("gradient_is_there", &RunWriter::gradient_is_there)
      .def("follow", &RunWriter::follow, Unlocked(), py::keep_alive<1, 2>())
      .def("enter", &RunWriter::enter)
      .def("leave", &RunWriter::leave)
      .def(
          "step",
          [](RunWriter& run, std::optional<double> loss, std::int64_t samples, double learning_rate) {
            run.step({loss, samples, learning_rate});
          },
          Unlocked())
      .def(
          "epoch",
          [](RunWriter& run, std::optional<double> accuracy, std::optional<double> loss) {
            run.epoch({accuracy, loss});
          },
          Unlocked())
      .def("finish", &RunWriter::finish, Unlocked())
      .def_property_readonly("folder", &RunWriter::folder)
      .def_property_readonly("steps", &RunWriter::steps);
}
