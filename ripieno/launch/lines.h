// Reads what other processes say, line by line.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>

#include "ripieno/core/runtime.h"

namespace ripieno::launch {

using OnLine = std::function<void(const std::string& line)>;

/// Calls `on_line` with each line, without its end, until the pipe has ended or is closed; then closes it. Lines longer
/// than 1 MiB are cut into several.
Task<> read_lines(asio::posix::stream_descriptor* pipe, OnLine on_line);

}  // namespace ripieno::launch
