#include "ripieno/report/loop_file.h"

#include "ripieno/core/file.h"
#include "ripieno/report/json_field.h"

namespace ripieno::report {
namespace {

constexpr std::uint64_t schema = 1;

}  // namespace

std::string to_json(const LoopFile& loop) {
  const Summary& known = loop.known;
  const nlohmann::ordered_json all{{"schema", schema},
                                   {"name", known.name},
                                   {"strategy", known.strategy},
                                   {"codec", known.codec},
                                   {"model", known.model},
                                   {"dataset", known.dataset},
                                   {"world_size", known.world_size},
                                   {"seed", known.seed},
                                   {"counts_bytes", known.counts_bytes},
                                   {"settings", loop.settings}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

LoopFile read_loop(const std::filesystem::path& file) {
  nlohmann::json parsed = nlohmann::json::parse(read_file(file), nullptr, false);
  if (parsed.is_discarded()) fail(ErrorKind::data, file.string(), ": not JSON");
  const JsonField top(parsed, file);
  if (const auto given = top.at("schema").count(); given != schema) {
    fail(ErrorKind::data, file.string(), ": field schema is ", given, ", but this version of Ripieno reads ", schema,
         ": read it with the version that wrote it");
  }
  LoopFile loop;
  loop.known.name = top.at("name").string();
  loop.known.strategy = top.at("strategy").string();
  loop.known.codec = top.at("codec").string();
  loop.known.model = top.at("model").string();
  loop.known.dataset = top.at("dataset").string();
  loop.known.world_size = top.at("world_size").small_count();
  if (loop.known.world_size == 0) top.at("world_size").refuse("1 or more");
  loop.known.seed = top.at("seed").whole();
  loop.known.counts_bytes = top.at("counts_bytes").boolean();
  for (const auto& [key, value] : top.at("settings").members()) loop.settings[key] = value.string();
  return loop;
}

}  // namespace ripieno::report
