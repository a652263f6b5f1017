#include "run_binding.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/utils/pybind.h>

#include "ripieno/loop/run_writer.h"

namespace py = pybind11;
using ripieno::RunWriter;
using ripieno::RunWriterOptions;

namespace {

/// The group of any backend, or none.
c10::intrusive_ptr<c10d::Backend> counted(c10d::Backend* group) {
  return group ? c10::intrusive_ptr<c10d::Backend>::reclaim_copy(group) : nullptr;
}

RunWriterOptions run_options_of(const py::dict& given) {
  RunWriterOptions options;
  options.folder = given["folder"].cast<std::filesystem::path>();
  options.name = given["name"].cast<std::string>();
  options.strategy = given["strategy"].cast<std::string>();
  options.codec = given["codec"].cast<std::string>();
  options.model = given["model"].cast<std::string>();
  options.dataset = given["dataset"].cast<std::string>();
  options.parameters = given["parameters"].cast<std::uint64_t>();
  options.seed = given["seed"].cast<std::int64_t>();
  options.epochs = given["epochs"].cast<std::uint32_t>();
  options.steps_per_epoch = given["steps_per_epoch"].cast<std::uint64_t>();
  options.first_epoch = given["first_epoch"].cast<std::uint32_t>();
  options.settings = given["settings"].cast<std::map<std::string, std::string>>();
  options.sample_every =
      std::chrono::duration_cast<ripieno::Duration>(std::chrono::duration<double>(given["sample_s"].cast<double>()));
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
