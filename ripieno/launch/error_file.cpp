#include "ripieno/launch/error_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ripieno/core/file.h"
#include "ripieno/core/runtime.h"
#include "ripieno/launch/environment.h"

namespace ripieno::launch {

void write_error_file(const Error& error) {
  const auto path = variable("TORCHELASTIC_ERROR_FILE");
  if (!path || path->empty()) return;
  const std::string now = std::to_string(std::llround(unix_time()));
  const nlohmann::json more{{"py_callstack", error.what()},
                            {"timestamp", now}};  // torchrun shows the first as the cause
  const nlohmann::json content{{"message", {{"message", error.what()}, {"extraInfo", more}}}};
  try {
    write_file(*path, content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } catch (const Error&) {  // what the process prints and its exit code still tell
  }
}

}  // namespace ripieno::launch
