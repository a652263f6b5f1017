#include "apps/ripieno/worker.h"

#include <nlohmann/json.hpp>

#include "apps/ripieno/job.h"
#include "apps/ripieno/rank.h"
#include "ripieno/launch/local.h"
#include "ripieno/train/torch_error.h"

namespace ripieno::program {

void run_part(launch::Control& control, const std::function<void()>& part) {
  const auto report = [&](const Error& error) {
    control.failed(error);
    if (control.has_listener()) throw Reported{error.kind()};
  };
  try {
    part();
  } catch (const launch::Interrupted& interrupted) {
    if (control.has_listener()) throw Reported{static_cast<ErrorKind>(128 + interrupted.signal())};
    throw;
  } catch (const Error& error) {
    report(error);
    throw;
  } catch (const std::exception& error) {
    report(Error(ErrorKind::internal, train::first_line(error)));
    throw;
  }
}

void tell(launch::Control& control, const nlohmann::json& message) {
  const std::string type = message.value("type", "");
  type == "survives" || type == "stopped" ? control.deliver(message) : control.send(message);
}

void run_worker(const std::filesystem::path& path, const std::string& resume, const model::Zoo& zoo) {
  launch::Control control(launch::control_descriptor_of_environment());
  std::optional<transport::Cluster> cluster;  // destroyed once the launcher knows of an error
  run_part(control, [&] {
    const launch::Placement place = launch::placement();
    const RunFolder folder = open_run(path);
    Settings settings;
    settings.load(folder.config());
    cluster.emplace(launch::join(place, join_options(settings)));
    if (cluster->endpoint->size() != ranks_of(settings)) {
      fail(ErrorKind::mismatch, "the job has ", cluster->endpoint->size(), " ranks; its recipe needs ",
           ranks_of(settings));
    }
    RankTask task{settings, folder,          {}, [&](const nlohmann::json& message) { tell(control, message); },
                  true,     place.local_rank};
    if (!resume.empty()) task.resume = resume;
    RankEnd end;
    cluster->runtime->spawn(text("rank ", place.rank), run_rank(task, &zoo, cluster->endpoint, &end));
    cluster->runtime->run();
    control.deliver({{"type", "summary"}, {"summary", report::to_json(end.summary)}});
  });
}

}  // namespace ripieno::program
